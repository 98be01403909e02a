package regional

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"aliquot/internal/hashslot"
	"aliquot/lua"
	"aliquot/regional/internal/storeguard"
)

// movedStore is a store whose primary hangs while down is set.
type movedStore struct {
	storeguard.Store
	down atomic.Bool
	// asked is called by the next call that finds the primary hanging.
	asked atomic.Pointer[func()]
}

// Take has no answer while the primary hangs.
func (s *movedStore) Take(ctx context.Context, epoch string, groups []lua.Group) ([]lua.Result, int64, error) {
	if !s.down.Load() {
		return s.Store.Take(ctx, epoch, groups)
	}
	if asked := s.asked.Swap(nil); asked != nil {
		(*asked)()
	}
	<-ctx.Done()
	return nil, 0, ctx.Err()
}

// TestAStoreThatIsDownCostsNoLease: a leader that goes on moving shares gets no answer to a change, and the session would
// end with the first one. It is told that nothing is in reach, and leaves the shares as they are. After half a minute
// others may need them.
func TestAStoreThatIsDownCostsNoLease(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		s, l := &movedStore{}, newLeader(t, failRules)
		d, _ := startLive(t, testConfig(l.address()), func(d *Daemon) {
			s.Store, d.guard.Store = d.guard.Store, s
		})
		reported := func() (out *hashslot.Set) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if last := l.reports[len(l.reports)-1].GetUnreachedSlots(); last != nil {
				set, err := hashslot.FromBytes(last)
				if err != nil {
					t.Fatal(err)
				}
				out = set
			}
			return out
		}
		s.down.Store(true)
		eventually(t, "all slots are reported as out of reach", func() bool {
			on(t, d, "local")
			set := reported()
			return set.Has(0) && set.Has(hashslot.Count-1)
		})
		began := time.Now()
		eventually(t, "others may have them", func() bool { set := reported(); return set.Same(nil) })
		if lasted := time.Since(began); lasted < keepsShares-5*time.Second || lasted > keepsShares+time.Second {
			t.Errorf("the shares are kept for %v", lasted)
		}
	})
}

// TestANewPrimaryIsTriedAtOnceThoughATrialOfTheOldOneIsUnderWay: that trial fails later than the new primary was named.
// The daemon waited up to 5 s then, as after any trial that failed.
func TestANewPrimaryIsTriedAtOnceThoughATrialOfTheOldOneIsUnderWay(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		s := &movedStore{}
		d, _ := startLive(t, testConfig(newLeader(t, failRules).address()), func(d *Daemon) {
			s.Store, d.guard.Store = d.guard.Store, s
		})
		s.down.Store(true)
		eventually(t, "the breaker is open", func() bool {
			on(t, d, "local")
			return d.guard.Breaker.Open.Load()
		})
		<-time.After(10 * time.Second) // by now a trial that fails is followed by a wait of seconds
		named := make(chan time.Time, 1)
		moves := func() {
			s.down.Store(false)
			d.newPrimary()
			named <- time.Now()
		}
		s.asked.Store(&moves)
		at := <-named
		eventually(t, "the breaker is closed", func() bool { return !d.guard.Breaker.Open.Load() })
		if took := time.Since(at); took > time.Second {
			t.Errorf("the new primary was tried %v after it was named", took)
		}
	})
}
