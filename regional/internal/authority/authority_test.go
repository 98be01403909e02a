package authority

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/storeclock"
)

// TestAStepOfTheStoresClockIsDistrusted: nothing tells it from a clock of the daemon's that
// was stopped.
func TestAStepOfTheStoresClockIsDistrusted(t *testing.T) {
	now := 100 * budget.Instant(time.Second)
	a := New(budget.NewRegion(0, budget.Config{}, 1, now), storeclock.New(), func() budget.Instant { return now })
	a.StoreEpoch("e1")
	<-a.wake
	at := func(store int64) (woken bool) {
		a.Sample("e1", storeclock.Sample{Store: store, Sent: now, Received: now})
		select {
		case <-a.wake:
			return true
		default:
			return false
		}
	}
	for _, c := range []struct {
		store int64
		woken bool
	}{{1_000_000, false}, {2_000_000, false}, {2_500_000, false}, {5_000_000, true}, {1_000_000, false}} {
		if woken := at(c.store); woken != c.woken {
			t.Errorf("at %d of the store's clock, %d of the daemon's: %t", c.store, now, woken)
		}
		now += budget.Instant(time.Second)
	}
}
