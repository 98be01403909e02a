package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"aliquot/budget"
	"aliquot/cluster/state"
	raftlogv1 "aliquot/proto/raftlog/v1"
)

// stuckTicks is the number of election timeouts that a leader may pass without a commit.
const stuckTicks = 3

// clusterIDBytes is enough for ids that never collide: sixteen hex characters.
const clusterIDBytes = 8

// LeaderCh delivers changes of leadership to one reader. It holds only the latest value, so true may follow true:
// leadership was lost and regained in between, and the reader must establish everything again. true is delivered
// after the state machine has caught up and the cluster has its identity.
func (n *Node) LeaderCh() <-chan bool { return n.leaderCh }

// watchLeadership reads raft's channel and runs lead for each term of leadership, one at a time.
func (n *Node) watchLeadership(notify <-chan bool) {
	stop := func() {}
	for {
		select {
		case <-n.ctx.Done():
			stop()
			return
		case leads := <-notify:
			stop()
			stop = func() {}
			if leads {
				stop = n.startLeading()
			} else {
				n.publish(false)
			}
		}
	}
}

// startLeading runs lead until the returned function is called.
func (n *Node) startLeading() (stop func()) {
	ctx, cancel := context.WithCancel(n.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.lead(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// publish replaces a value that the reader of LeaderCh has not read yet. One goroutine at a time calls it.
func (n *Node) publish(leads bool) {
	select {
	case <-n.leaderCh:
	default:
	}
	n.leaderCh <- leads
}

// lead establishes one term of leadership, then watches it.
func (n *Node) lead(ctx context.Context) {
	for {
		term := n.raft.CurrentTerm()
		err := n.withPatience(ctx, n.establish)
		if err == nil {
			n.caughtUp.Store(term)
			break
		}
		if ctx.Err() != nil || n.raft.State() != raft.Leader {
			return
		}
		if errors.Is(err, ErrLeaderStuck) || errors.Is(err, state.ErrInvalidArgument) {
			n.fail(err)
			return
		}
		n.log.Warn("could not take charge as leader; trying again", "error", err)
	}
	n.publish(true)
	n.gossip.Peers.Wake() // its addresses are to be replicated
	n.watchCommits(ctx)
}

// establish applies everything that earlier leaders committed, and gives a cluster without one its identity.
func (n *Node) establish(ctx context.Context) error {
	if err := n.Barrier(ctx); err != nil {
		return err
	}
	empty := false
	n.View(func(s *state.State) { empty = s.ClusterID == "" })
	if !empty {
		return nil
	}
	cmd, err := n.bootstrapCommand()
	if err != nil {
		return err
	}
	if _, err := n.Propose(ctx, cmd); err != nil {
		return fmt.Errorf("bootstrap the cluster: %w", err)
	}
	n.log.Info("a new cluster was bootstrapped", "regions", n.cfg.Regions)
	return nil
}

func (n *Node) bootstrapCommand() (*raftlogv1.Command, error) {
	random := make([]byte, clusterIDBytes+state.SecretBytes)
	if _, err := rand.Read(random); err != nil {
		return nil, fmt.Errorf("cluster: create the cluster's secret: %w", err)
	}
	config := budget.NewConfig(n.cfg.Regions, n.cfg.Lease, n.cfg.RhoPPM)
	return &raftlogv1.Command{Kind: &raftlogv1.Command_Bootstrap{Bootstrap: &raftlogv1.Bootstrap{
		ClusterId:   hex.EncodeToString(random[:clusterIDBytes]),
		HashSecret:  random[clusterIDBytes:],
		LeaseMicros: config.Lease.Microseconds(),
		RhoPpm:      config.RhoPPM,
		Regions:     state.EncodeRegions(config.Regions),
		RulesYaml:   n.cfg.RulesYAML,
		Author:      "bootstrap by " + n.cfg.NodeID,
		UnixMs:      time.Now().UnixMilli(),
	}}}, nil
}

// watchCommits ends a leader that cannot commit. After a failed transfer of leadership a leader may refuse every
// command forever (hashicorp/raft issue 696); nothing here transfers leadership. A disk that hangs or is full has
// the same effect (issue 503). While other commands are committed, it proposes nothing itself.
func (n *Node) watchCommits(ctx context.Context) {
	tick := time.NewTicker(n.cfg.electionTimeout())
	defer tick.Stop()
	seen, idle := n.commits.Load(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := n.commits.Load(); now != seen {
			seen, idle = now, 0
			continue
		}
		if idle++; idle < stuckTicks {
			continue
		}
		if err := n.withPatience(ctx, n.proposeNoop); errors.Is(err, ErrLeaderStuck) && n.raft.State() == raft.Leader {
			n.fail(err)
			return
		}
		seen, idle = n.commits.Load(), 0
	}
}

func (n *Node) proposeNoop(ctx context.Context) error {
	_, err := n.Propose(ctx, &raftlogv1.Command{Kind: &raftlogv1.Command_Noop{Noop: &raftlogv1.Noop{}}})
	return err
}

// withPatience gives work three election timeouts, and then returns ErrLeaderStuck. Until then it repeats work that
// fails. It counts ticks, not time: a process that was stopped for a minute gets one late tick.
//
// Ticks in which this process had no processor do not count, since a leader without a processor is not stuck. Nor do
// ticks in which a log entry was applied: after a restart a leader first applies what was committed before, which may
// take minutes. Between two applied entries at most maxExcused ticks are excused.
func (n *Node) withPatience(ctx context.Context, work func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tick := time.NewTicker(n.cfg.electionTimeout())
	defer tick.Stop()
	var starved starvation
	starved.watch(ctx)
	done := make(chan error, 1)
	run := func() { done <- work(ctx) }
	go run()
	var last error
	applied := n.fsm.applied.Load()
	for ticks := 0; ; {
		select {
		case err := <-done:
			if err == nil || n.raft.State() != raft.Leader || errors.Is(err, state.ErrInvalidArgument) {
				return err
			}
			last = err
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if now := n.fsm.applied.Load(); now != applied {
				applied, starved.excused = now, 0
				continue
			}
			if starved.excuses(n.cfg.electionTimeout(), n.fsm.started.Load() != applied) {
				continue
			}
			if ticks++; ticks > stuckTicks {
				return fmt.Errorf("%w (%w)", ErrLeaderStuck, cmp.Or(last, errors.New("no answer")))
			}
			if last != nil {
				last = nil
				go run()
			}
		}
	}
}

const (
	// wakeInterval is the interval of the wake-ups whose lateness is measured.
	wakeInterval = 10 * time.Millisecond
	// starvedPart divides the election timeout: a process that wakes up later than that has too little processor
	// for Raft.
	starvedPart = 10
	// maxExcused is the number of ticks that starvation or one entry excuses: a leader that is starved for longer is
	// as useless as one that is stuck.
	maxExcused = 30
)

// starvation distinguishes a leader without a processor from one that is stuck. The zero value is ready to use.
type starvation struct {
	late    atomic.Int64 // the latest wake-up since the last tick, as a duration
	excused int
}

// watch measures how late this process wakes up, until ctx ends.
func (s *starvation) watch(ctx context.Context) {
	go func() {
		tick := time.NewTicker(wakeInterval)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			now := time.Now()
			s.recordLateness(now.Sub(last) - wakeInterval)
			last = now
		}
	}()
}

// recordLateness records a wake-up that was this late.
func (s *starvation) recordLateness(late time.Duration) {
	if int64(late) > s.late.Load() {
		s.late.Store(int64(late)) // only watch stores more than zero
	}
}

// excuses reports whether the tick that just came does not count, and begins the next one. applying: an entry is
// being applied. One goroutine calls it.
func (s *starvation) excuses(electionTimeout time.Duration, applying bool) bool {
	late := time.Duration(s.late.Swap(0)) >= electionTimeout/starvedPart
	if !late && !applying || s.excused == maxExcused {
		return false
	}
	s.excused++
	return true
}
