package coordinator

import (
	"context"
	"sync"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/boottime"
)

// TestASpentEpochIsFollowedByTheNext: when half of an epoch's generations are used the same
// node leads on with a new epoch, long before a region would have to refuse its shares.
func TestASpentEpochIsFollowedByTheNext(t *testing.T) {
	leadership := leadershipOfOne(t, boottime.Now)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { leadership.run(ctx) })
	defer running.Wait()
	defer stop()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	limit := time.After(time.Minute)
	loopAfter := func(epoch uint64) *leaderLoop {
		for {
			select {
			case <-poll.C:
				if l := leadership.current(); l != nil && l.epoch > epoch {
					return l
				}
			case <-limit:
				t.Fatalf("nobody leads after epoch %d", epoch)
			}
		}
	}
	first := loopAfter(0)
	if err := first.query(ctx, func(m *budget.Leader, _ budget.Instant) { m.SpendGenerations(1 << 31) }); err != nil {
		t.Fatal(err)
	}
	second := loopAfter(first.epoch)
	if err := second.query(ctx, func(m *budget.Leader, _ budget.Instant) {
		if m.EpochSpent() {
			t.Error("the new epoch is spent as well")
		}
	}); err != nil {
		t.Error(err)
	}
	if err := first.query(ctx, func(*budget.Leader, budget.Instant) {}); err != errEpochSpent {
		t.Errorf("whoever asks the old reign is told %v", err)
	}
}
