package cluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"aliquot/cluster/state"
	raftlogv1 "aliquot/proto/raftlog/v1"
)

// TestAStarvedLeaderIsNotAStuckOne: ticks in which the process woke up late are excused, for a while.
func TestAStarvedLeaderIsNotAStuckOne(t *testing.T) {
	var s starvation
	if s.excuses(time.Second) {
		t.Error("a process that woke up in time is excused")
	}
	s.woke(99 * time.Millisecond)
	if s.excuses(time.Second) {
		t.Error("a process that woke up a little late is excused")
	}
	for i := range maxExcused {
		s.woke(100 * time.Millisecond)
		s.woke(time.Millisecond)
		if !s.excuses(time.Second) {
			t.Fatalf("a starved process is not excused the time %d", i)
		}
		if s.excuses(time.Second) {
			t.Fatal("the tick after it is excused too")
		}
	}
	s.woke(time.Minute)
	if s.excuses(time.Second) {
		t.Error("starvation excuses for ever")
	}
}

// TestALeaderThatAppliesIsNotStuck: a leader that first has to apply a long log, as after a restart of the whole
// cluster, is given the time for it. One that waits while nothing is applied is stuck.
func TestALeaderThatAppliesIsNotStuck(t *testing.T) {
	entry, err := state.EncodeCommand(&raftlogv1.Command{Kind: &raftlogv1.Command_Noop{Noop: &raftlogv1.Noop{}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		entries int
		want    error
	}{"twenty entries": {20, nil}, "none": {0, ErrLeaderStuck}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &Node{cfg: DefaultConfig(), fsm: newFSM()}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				err := n.withPatience(ctx, func(ctx context.Context) error {
					for i := range c.entries {
						select {
						case <-time.After(n.cfg.electionTimeout() * 3 / 4):
						case <-ctx.Done():
							return ctx.Err()
						}
						n.fsm.Apply(&raft.Log{Index: uint64(i + 1), Term: 1, Data: entry})
					}
					if c.entries == 0 {
						<-ctx.Done()
					}
					return ctx.Err()
				})
				if !errors.Is(err, c.want) {
					t.Errorf("the leader ends with %v, want %v", err, c.want)
				}
			})
		})
	}
}
