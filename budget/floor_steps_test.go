package budget

import (
	"testing"
	"time"
)

// stepsMade returns how many steps a change makes until ok, which must be within a time.
func (w *world) stepsMade(what string, within time.Duration, ok func() bool) (steps uint64) {
	w.t.Helper()
	before := w.ledger.Config.Version
	w.runUntil(what, within, ok)
	return w.ledger.Config.Version - before
}

// Each step of a change of floors begins a new epoch. How long old leases run is counted from the
// beginning of an epoch. So the floors wait for the leases, and the leases do not wait for all the
// floors.
func TestFloorsDoNotKeepAShorterLeaseWaiting(t *testing.T) {
	w := started(t, 3)
	w.retime(2*time.Second, 20_000)
	w.change(func(l *Ledger) error { return l.UpdateRegion("a", 5) })
	over := w.ledger.Config.LeasesOver()
	w.runUntil("the shorter lease holds", over+2*tick, func() bool { return !w.ledger.Config.Retiming() })
	w.runUntil("floors are what the weights amount to", 5*time.Second, w.steady)
}

// The fact that the longer leases have ended is kept while a region has yet to acknowledge.
func TestLongerLeasesEndWithoutARegion(t *testing.T) {
	w := started(t, 3)
	w.cut[2] = true
	w.retime(2*time.Second, 50_000)
	w.run(w.ledger.Config.LeasesOver() + 2*tick)
	if c := w.ledger.Config; c.wait() != 2*time.Second || !c.RhoRising || c.NextLease() != 2*time.Second {
		t.Errorf("the longer leases have ended, and c has not acknowledged rho: %+v", c)
	}
	w.change(func(l *Ledger) error { return l.UpdateRegion("a", 2) })
	w.cut[2] = false
	w.runUntil("c has acknowledged", 5*time.Second, func() bool { return !w.ledger.Config.Retiming() && w.steady() })
}

// A step waits for a region that opens its session a little later than the others, however long the
// tail and however slow the region's clock.
func TestStepWaitsForWhoIsALittleLate(t *testing.T) {
	for _, tail := range []time.Duration{0, time.Minute, 10 * time.Minute} {
		w := started(t, 3)
		w.limit.Tail = tail
		w.retime(10*time.Second, 200_000)
		w.runUntil("everyone knows rho", time.Hour, func() bool { return !w.ledger.Config.Retiming() })
		w.cut[1] = true
		w.change(func(l *Ledger) error { return l.UpdateRegion("a", 2) })
		w.run(time.Second)
		w.cut[1] = false
		steps := w.stepsMade("floors are what the weights amount to", w.ledger.Config.Lengthen(tail)+5*time.Second, w.steady)
		if steps != 1 {
			t.Errorf("with a tail of %v it took %d steps, not one", tail, steps)
		}
	}
}

// What a region used of an earlier floor ends a tail after it gave that floor up, even if its
// session ends. Another daemon of the region has to give it up again.
func TestBrokenSessionsDoNotKeepAStepWaiting(t *testing.T) {
	w := started(t, 2)
	w.limit.Tail = 2 * time.Minute
	w.change(func(l *Ledger) error { return l.UpdateRegion("a", 3) })
	broken := func(times int) {
		for range times {
			w.run(10 * time.Second)
			w.act(1, w.regions[1].Step(CallFailed{}, w.now))
		}
	}
	broken(6)
	if w.steady() {
		t.Fatal("this test is to see b asked for a smaller floor for a tail")
	}
	broken(6)
	w.runUntil("a tail after b gave up its part", 7*time.Second, w.steady)

	w.change(func(l *Ledger) error { return l.UpdateRegion("a", 1) })
	w.run(w.limit.Tail / 2)
	w.regions[0] = NewRegion(0, w.regions[0].Config(), 50, w.now) // a loses now
	w.regions[0].Step(StoreEpoch{"epoch-a"}, w.now)
	w.run(w.ledger.Config.Lengthen(w.limit.Tail)/2 + 3*time.Second)
	if w.steady() {
		t.Error("another daemon of a region that is to give up a part of its floor acknowledged it at once")
	}
}

// How long a limit's buckets take to fill is the time that a change of floors is remembered for.
func TestFillTime(t *testing.T) {
	c := NewConfig([]string{"a", "b", "c", "d"}, 10*time.Second, 20_000)
	slowly := func(d time.Duration) time.Duration { return d + d/50 }
	for _, f := range []struct {
		of   KeyLimit
		want time.Duration
	}{
		{KeyLimit{}, 0},
		{KeyLimit{Tail: time.Minute}, slowly(time.Minute)},
		{KeyLimit{Rate: 5}, 0},
		{KeyLimit{Capacity: 10 * microToken, Rate: microToken}, slowly(40 * time.Second)},
		{KeyLimit{Capacity: microToken, RateFrac: 500_000}, slowly(8_000_000 * time.Second)},
		{KeyLimit{Capacity: 90 * microToken, Rate: 1_500_000, Tail: time.Minute}, slowly(4 * time.Minute)},
		{KeyLimit{Capacity: microToken}, maxFill},
	} {
		if got := c.FillTime(f.of).Round(time.Millisecond); got != f.want.Round(time.Millisecond) {
			t.Errorf("%+v: %v, want %v", f.of, got, f.want)
		}
	}
}
