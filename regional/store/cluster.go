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
)

// Cluster keeps the records in a Redis Cluster. The records of one client share a slot,
// and a script reaches the keys of one slot only: a request whose limits stand in several
// is charged in all of them at once, and what was charged is given back if one of them
// denied it or could not be asked. Every slot has a copy of the epoch, which each script
// call looks at. Safe for concurrent use.
type Cluster struct {
	nodes   *nodes
	scripts *lua.Scripts
	epochs  *[lua.Slots]string // the keys of the epoch
	heard   heardMarks
	roster  string // the key of the list of daemons, in homeSlot
	// reserving are the reservations that are being made.
	reserving names
	refused   refusedSlots
	onEpoch   func(string)
	// onCircuit is RedisConfig.OnCircuit.
	onCircuit func(node string, open bool, cause error)
	log       *slog.Logger
	// callTimeout bounds a round trip.
	callTimeout time.Duration

	mu            sync.Mutex
	seen          string    // the epoch last learned
	learning      *learning // nil: nobody learns
	learned       *learning // the last one, if nobody has taken what it found
	policyChecked bool

	spread spread // of whoever learns

	background sync.WaitGroup
	ctx        context.Context // ends when the store is closed
	stop       context.CancelFunc
}

// NewCluster prepares the store; nothing is dialled until the first call. It fails only on
// a configuration that could never work.
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
		s.nodes.letGo = func(addr string) { c.OnCircuit(addr, false, nil) }
	}
	s.heard.keys, s.roster = heardKeys(), lua.SlotKeys(lua.RosterKey)[homeSlot]
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Close closes the connections; calls under way fail.
func (s *Cluster) Close() error {
	s.stop()
	s.background.Wait()
	return s.nodes.close()
}

// current tells whether the contents are those expected, as far as this process knows
// without asking: a node may have been replaced by a process that nobody vouched for.
func (s *Cluster) current() error {
	if s.nodes.strange.Load() {
		return &EpochError{}
	}
	return nil
}

// bySlot makes a job for each slot that n keys stand in, or more where one would be long:
// of[j] are those of job j, in their order.
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

// Apply makes changes, any number of them, each slot's in order; see lua.Scripts.Apply.
func (s *Cluster) Apply(ctx context.Context, epoch string, changes []Change) ([]limit.Applied, int64, error) {
	if err := lua.CheckChanges(epoch, changes); err != nil {
		return nil, 0, err
	}
	changes = s.wordChanges(ctx, changes)
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
		reply, err := s.result(j)
		if err == nil {
			some, now, err = lua.ReadApply(reply, parts[at])
		}
		if err != nil {
			return nil, 0, err
		}
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

// ApplyLease is Apply for a caller that takes a lease along with the changes, of which
// there may be none; see Redis.ApplyLease and heard.go.
func (s *Cluster) ApplyLease(ctx context.Context, epoch string, changes []Change) ([]limit.Applied, int64, error) {
	applied, now, err := s.Apply(ctx, epoch, changes)
	if _, node := errors.AsType[*NodeError](err); err != nil && (!node || len(changes) > 0) {
		return nil, 0, err
	}
	// Without changes the mark is all there is to do, and it needs most of its slots only.
	if err := s.markHeard(ctx); err != nil {
		return nil, 0, err
	}
	return applied, now, nil
}

// Roster tells the list of the region's daemons of one, and reads it. The list stands in one
// slot: while the node of that does not answer, nobody reads it, and what was read holds.
func (s *Cluster) Roster(ctx context.Context, epoch string, c roster.Call) (roster.Reply, error) {
	j := &job{slot: homeSlot, call: s.scripts.RosterCall(s.epochs[homeSlot], s.roster, epoch, c)}
	s.run(ctx, []*job{j})
	reply, err := s.result(j)
	if err != nil {
		return roster.Reply{}, err
	}
	return lua.ReadRoster(reply)
}

// result is a script's reply. While a node runs a process that nobody vouched for, its
// errors are about that.
func (s *Cluster) result(j *job) ([]any, error) {
	if j.err != nil {
		if err := s.current(); err != nil {
			return nil, err
		}
		return nil, j.err
	}
	reply, ok := j.reply.([]any)
	if !ok {
		return nil, errors.New("store: a script's reply is no list")
	}
	s.nodes.read(j, reply)
	return reply, nil
}

// pause waits, unless the context ends first.
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
