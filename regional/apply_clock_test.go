package regional

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/storeguard"
)

// A store that has come back with other contents has another clock, which nobody has read
// yet when the next session begins: no session is to end for that.
func TestChangesAreAppliedInAStoreWhoseClockIsNotKnownYet(t *testing.T) {
	d, _ := startLive(t, testConfig(newLeader(t, oneRule).address()))
	d.auth.Clock.Reset()
	change := budget.ShareChange{
		Key: budget.KeyID{Rule: 1}, Limit: budget.KeyLimit{Capacity: 100e6, Rate: 10e6},
		Gen: budget.Gen{Epoch: 1, Counter: 1}, Share: budget.Share{Rate: 1, Burst: 1},
	}
	if out := d.reporter.apply(t.Context(), []budget.ShareChange{change}); len(out) != 1 || out[0].Failed {
		t.Errorf("the change was not applied: %+v", out)
	}
}

// silentChanges is a store that answers no change of a share, and remembers the change's deadline.
type silentChanges struct {
	storeguard.Store
	silent   atomic.Bool
	deadline atomic.Int64
}

func (s *silentChanges) ApplyLease(ctx context.Context, epoch string, changes []lua.Change) ([]limit.Applied, int64, error) {
	if s.silent.Load() && len(changes) > 0 {
		s.deadline.Store(changes[0].Deadline)
		return nil, 0, errors.New("no answer")
	}
	return s.Store.ApplyLease(ctx, epoch, changes)
}

// TestAChangeWithoutAnAnswerFailsOnceItCanNoLongerBeMade: the leader gives away again what a failed change would have
// raised, so it must not hear of the failure while the change may still be on its way to the store.
func TestAChangeWithoutAnAnswerFailsOnceItCanNoLongerBeMade(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		var s *silentChanges
		d, _ := startLive(t, testConfig(newLeader(t, oneRule).address()), func(d *Daemon) {
			s = &silentChanges{Store: d.guard.Store}
			d.guard.Store = s
		})
		if err := d.guard.Learn(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.silent.Store(true)
		change := budget.ShareChange{
			Key: budget.KeyID{Rule: 1}, Limit: budget.KeyLimit{Capacity: 100e6, Rate: 10e6},
			Gen: budget.Gen{Epoch: 1, Counter: 1}, Share: budget.Share{Rate: 1, Burst: 1},
		}
		out := d.reporter.apply(t.Context(), []budget.ShareChange{change})
		if len(out) != 1 || !out[0].Failed {
			t.Fatalf("the change did not fail: %+v", out)
		}
		now := d.auth.Clock.Until(d.auth.Now())
		if deadline := s.deadline.Load(); deadline == 0 || now < deadline {
			t.Errorf("the leader hears of it at %d by the store's clock, and the store makes the change until %d", now, deadline)
		}
	})
}
