package store

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"aliquot/internal/roster"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/store/breaker"
)

// Cluster keeps the records in a Redis Cluster. The records of one client share a slot, and a
// script reaches the keys of one slot only. So a request whose limits are in several slots is
// charged in all of them at once. If one of them denied it or did not answer, the charges are given
// back. Every slot has a copy of the epoch, which each script call checks. Safe for concurrent use.
type Cluster struct {
	nodes   *nodes
	scripts *lua.Scripts
	epochs  *[lua.Slots]string // the keys of the epoch
	heard   heardMarks
	roster  string // the key of the list of daemons, in homeSlot
	// reserving holds the names of the reservations that are being made.
	reserving names
	refused   breaker.Slots
	onEpoch   func(string)
	// onCircuit is RedisConfig.OnCircuit.
	onCircuit func(node string, open bool, cause error)
	log       *slog.Logger
	// callTimeout bounds a round trip.
	callTimeout time.Duration

	mu            sync.Mutex
	lastEpoch     string    // the epoch last learned
	learning      *learning // nil: no learning is under way
	learned       *learning // the latest one, unless its result was taken
	policyChecked bool

	propagation propagation // used only by the learning under way

	background sync.WaitGroup
	ctx        context.Context // ends when the store is closed
	stop       context.CancelFunc
}

// NewCluster prepares the store. It dials nothing before the first call. It fails only on a
// configuration that could never work.
func NewCluster(c RedisConfig) (*Cluster, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	options, seeds, err := clusterOptions(c)
	if err != nil {
		return nil, err
	}
	s := &Cluster{
		scripts: lua.New(nil), epochs: lua.SlotKeys(lua.EpochKey), onEpoch: c.OnEpoch, onCircuit: c.OnCircuit, log: c.Logger,
		nodes: newNodes(options, seeds), callTimeout: c.CallTimeout,
	}
	if c.OnCircuit != nil {
		s.nodes.onDrop = func(addr string) { c.OnCircuit(addr, false, nil) }
	}
	s.heard.keys, s.roster = heardKeys(), lua.SlotKeys(lua.RosterKey)[homeSlot]
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Close closes the connections. Calls under way fail.
func (s *Cluster) Close() error {
	s.stop()
	s.background.Wait()
	return s.nodes.close()
}

// current returns an *EpochError if the contents are known not to be the expected ones, because a
// node runs an unknown process. It does not ask the nodes.
func (s *Cluster) current() error {
	if s.nodes.unvouched.Load() {
		return &EpochError{}
	}
	return nil
}

// bySlot makes a job for each slot of n keys, or several where one would be long. of[j] are the
// indexes of the keys of job j, in their order.
func bySlot(n int, key func(i int) string) (jobs []*job, of [][]int) {
	open := map[int]int{} // the job of a slot that has room
	for i := range n {
		slot := lua.SlotOf(key(i))
		at, found := open[slot]
		if !found || len(of[at]) == lua.ApplyChunk {
			at = len(jobs)
			open[slot] = at
			jobs, of = append(jobs, &job{slot: slot}), append(of, nil)
		}
		of[at] = append(of[at], i)
	}
	return jobs, of
}

// Apply makes changes, any number of them, in each slot in order; see lua.Scripts.Apply. The clock is the
// latest of the nodes' clocks.
func (s *Cluster) Apply(ctx context.Context, epoch string, changes []Change) ([]limit.Applied, int64, error) {
	if err := lua.CheckChanges(epoch, changes); err != nil {
		return nil, 0, err
	}
	changes = s.changesForNodes(ctx, changes)
	jobs, asked := bySlot(len(changes), func(i int) string { return changes[i].Key })
	if len(jobs) == 0 {
		return s.applyNothing(ctx, epoch)
	}
	parts := make([][]Change, len(jobs))
	for at, j := range jobs {
		for _, i := range asked[at] {
			parts[at] = append(parts[at], changes[i])
		}
		call, err := s.scripts.ApplyCall(s.epochs[j.slot], epoch, parts[at])
		if err != nil {
			return nil, 0, err
		}
		j.call = call
	}
	s.run(ctx, jobs)
	applied := make([]limit.Applied, len(changes))
	now := int64(0)
	for at, j := range jobs {
		var some []limit.Applied
		var clock int64
		reply, err := s.result(j)
		if err == nil {
			some, clock, err = lua.ReadApply(reply, parts[at])
		}
		if err != nil {
			return nil, 0, err
		}
		now = max(now, clock)
		for k, i := range asked[at] {
			applied[i] = some[k]
		}
	}
	return applied, now, nil
}

// applyNothing asks the store for its epoch and clock.
func (s *Cluster) applyNothing(ctx context.Context, epoch string) ([]limit.Applied, int64, error) {
	call, err := s.scripts.ApplyCall(s.epochs[homeSlot], epoch, nil)
	if err != nil {
		return nil, 0, err
	}
	j := &job{slot: homeSlot, call: call}
	s.run(ctx, []*job{j})
	reply, err := s.result(j)
	if err != nil {
		return nil, 0, err
	}
	return lua.ReadApply(reply, nil)
}

// ApplyLease makes changes, of which there may be none, for a caller that takes a lease along with
// them; see Redis.ApplyLease and cluster_heard.go.
func (s *Cluster) ApplyLease(ctx context.Context, epoch string, changes []Change) ([]limit.Applied, int64, error) {
	applied, now, err := s.Apply(ctx, epoch, changes)
	if _, node := errors.AsType[*NodeError](err); err != nil && (!node || len(changes) > 0) {
		return nil, 0, err
	}
	// Without changes only the mark is to be written, which needs only most of its slots.
	if err := s.markHeard(ctx); err != nil {
		return nil, 0, err
	}
	return applied, now, nil
}

// Roster records one daemon in the list of the region's daemons, and reads the list. The list is in
// one slot. While the node of that slot does not answer, no daemon reads the list, and the list as
// last read holds.
func (s *Cluster) Roster(ctx context.Context, epoch string, c roster.Call) (roster.Reply, error) {
	j := &job{slot: homeSlot, call: s.scripts.RosterCall(s.epochs[homeSlot], s.roster, epoch, c)}
	s.run(ctx, []*job{j})
	reply, err := s.result(j)
	if err != nil {
		return roster.Reply{}, err
	}
	return lua.ReadRoster(reply)
}

// result returns a script's reply. While a node runs an unknown process, the error of a failed job
// is an *EpochError.
func (s *Cluster) result(j *job) ([]any, error) {
	if j.err != nil {
		if err := s.current(); err != nil {
			return nil, err
		}
		return nil, j.err
	}
	reply, ok := j.reply.([]any)
	if !ok {
		return nil, errors.New("store: a script's reply is not a list")
	}
	s.nodes.readClock(j, reply)
	return reply, nil
}

// pause waits for a time. It returns the context's error if that ends first.
func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
