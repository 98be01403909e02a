package cluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestAStarvedLeaderIsNotAStuckOne: ticks in which the process woke up late are excused, for a while.
func TestAStarvedLeaderIsNotAStuckOne(t *testing.T) {
	var s starvation
	if s.excuses(time.Second, false) {
		t.Error("a process that woke up in time is excused")
	}
	s.recordLateness(99 * time.Millisecond)
	if s.excuses(time.Second, false) {
		t.Error("a process that woke up a little late is excused")
	}
	for i := range maxExcused {
		s.recordLateness(100 * time.Millisecond)
		s.recordLateness(time.Millisecond)
		if !s.excuses(time.Second, false) {
			t.Fatalf("a starved process is not excused the time %d", i)
		}
		if s.excuses(time.Second, false) {
			t.Fatal("the tick after it is excused too")
		}
	}
	s.recordLateness(time.Minute)
	if s.excuses(time.Second, false) {
		t.Error("starvation excuses for ever")
	}
}

// TestALeaderThatAppliesIsNotStuck: a leader that first has to apply a long log, as after a restart of the whole
// cluster, is given the time for it, and half a minute for one entry. One that waits while nothing is applied is stuck.
func TestALeaderThatAppliesIsNotStuck(t *testing.T) {
	for name, c := range map[string]struct {
		entries, timeoutsEach int
		want                  error
	}{
		"a long log":               {100, 1, nil},
		"large entries":            {3, 30, nil},
		"an entry without end":     {1, 60, ErrLeaderStuck},
		"nothing is to be applied": {0, 0, ErrLeaderStuck},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &Node{cfg: DefaultConfig(), fsm: newFSM()}
				// The entries are counted as Apply does. It never ends at the same instant as a tick.
				timeout := n.cfg.electionTimeout() * 3 / 4
				err := n.withPatience(t.Context(), func(ctx context.Context) error {
					for range c.entries {
						n.fsm.started.Add(1)
						select {
						case <-time.After(time.Duration(c.timeoutsEach) * timeout):
						case <-ctx.Done():
							return ctx.Err()
						}
						n.fsm.applied.Add(1)
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
