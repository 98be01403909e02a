package authority

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/internal/storeclock"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
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

// TestOnlyReadingsOfThePresentContentsCount: other contents may be on a server with another clock.
func TestOnlyReadingsOfThePresentContentsCount(t *testing.T) {
	t.Parallel()
	now := 100 * budget.Instant(time.Second)
	a := New(budget.NewRegion(0, budget.Config{}, 1, now), storeclock.New(), func() budget.Instant { return now })
	reading := storeclock.Sample{Store: 1_000_000, Sent: now, Received: now}
	a.StoreEpoch("second")
	a.Sample("first", reading)
	a.ClockWasSet("first", reading)
	if a.Clock.Until(now) != 0 {
		t.Error("the clock of other contents is read as that of the present ones")
	}
	if a.Sample("second", reading); a.Clock.Until(now) == 0 {
		t.Fatal("a reading of the present contents does not count")
	}
	if a.StoreEpoch("third"); a.Clock.Until(now) != 0 {
		t.Error("the clock of the earlier contents is that of the next ones")
	}
}

// TestContentsOfAnUnknownAgeHaveEarnedNothing.
func TestContentsOfAnUnknownAgeHaveEarnedNothing(t *testing.T) {
	t.Parallel()
	now := 100 * budget.Instant(time.Second)
	a := New(budget.NewRegion(0, budget.Config{}, 1, now), storeclock.New(), func() budget.Instant { return now })
	if a.StoreEpoch("without a birth"); a.born != limit.MaxExact {
		t.Errorf("the contents began at %d of the store's clock, want the latest instant there is", a.born)
	}
}

// TestALimitThatChangedWasUsedForAWhileLonger: requests that were decided by the limit before the change reach the
// store after it.
func TestALimitThatChangedWasUsedForAWhileLonger(t *testing.T) {
	t.Parallel()
	now := 100 * budget.Instant(time.Second)
	a := New(budget.NewRegion(0, budget.Config{}, 1, now), storeclock.New(), func() budget.Instant { return now })
	a.StoreEpoch("e1")
	a.Sample("e1", storeclock.Sample{Store: int64(now) / 1000, Sent: now, Received: now})
	changed := now.Add(-time.Second)
	c := charge.Charge{Planned: charge.Planned{Changed: &entitlement.Change{At: changed}}}
	g := &charge.Transaction{Charges: []charge.Charge{c}}
	a.Grant([]*charge.Transaction{g})
	if least := int64(changed.Add(entitlement.LateUse)) / 1000; g.Charges[0].RuleSince < least {
		t.Errorf("only the present limit holds from %d of the store's clock, want %d at least", g.Charges[0].RuleSince, least)
	}
}
