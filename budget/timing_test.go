package budget

import (
	"errors"
	"testing"
	"time"
)

// runWithin lets time pass, and checks that what regions may spend sums to at most the limit.
func (w *world) runWithin(t *testing.T, d time.Duration) {
	t.Helper()
	for end := w.now.Add(d); w.now < end; {
		w.run(tick)
		var sum Share
		for _, r := range w.regions {
			sum = sum.Add(r.Right(w.key, w.limit, w.now).Effective())
		}
		if sum.Rate > Unit || sum.Burst > Unit {
			t.Fatalf("regions may spend %v of %d together; a %d, b %d, c %d per mille", sum, Unit, w.rate(0), w.rate(1), w.rate(2))
		}
	}
}

// lent returns a world in which the first region holds what the others have lent.
func lent(t *testing.T) *world {
	w := started(t, 3)
	w.load[0] = 10
	w.runUntil("a holds 98.6 % of the rate", 3*time.Second, func() bool { return w.rate(0) >= 986 })
	return w
}

func (w *world) retime(lease time.Duration, rhoPPM int32) {
	w.t.Helper()
	w.change(func(l *Ledger) error { return l.SetTiming(lease, rhoPPM) })
}

func TestTimingThatCannotBeSet(t *testing.T) {
	l := &Ledger{Config: NewConfig([]string{"a"}, 10*time.Second, 20_000)}
	for _, c := range []struct {
		lease time.Duration
		rho   int32
	}{{MinLease - 1, 20_000}, {MaxLease + 1, 20_000}, {MinLease, MinRhoPPM - 1}, {MinLease, MaxRhoPPM + 1}, {0, 20_000}} {
		if err := l.SetTiming(c.lease, c.rho); !errors.Is(err, ErrBadTiming) {
			t.Errorf("%v and %d ppm: %v", c.lease, c.rho, err)
		}
	}
	if l.SetTiming(10*time.Second, 20_000) != nil || l.Config.Version != 1 {
		t.Error("the timing that is in force makes a new version")
	}
}

// A longer lease is granted only when every region waits for it.
func TestLongerLease(t *testing.T) {
	w := lent(t)
	w.cut[1] = true
	w.retime(30*time.Second, 20_000)
	if c := w.ledger.Config; c.Lease != 10*time.Second || c.LeaseWait != 30*time.Second || c.NextLease() != 30*time.Second || !c.Retiming() {
		t.Fatalf("at first %+v", c)
	}
	w.runWithin(t, time.Minute)
	if w.ledger.Config.Lease != 10*time.Second {
		t.Fatal("longer leases while b has not heard of them")
	}
	w.cut[1] = false
	w.runUntil("b has acknowledged", 3*time.Second, func() bool { return !w.ledger.Config.Retiming() })
	if c := w.ledger.Config; c.Lease != 30*time.Second || c.LeaseWait != 0 || c.wait() != 30*time.Second {
		t.Errorf("in the end %+v", c)
	}
	w.runUntil("everyone is live", 3*time.Second, w.allLive)
	w.fall()
	w.runWithin(t, 2*time.Minute)
}

// A lender that does not know of a longer lease takes its floor back by the old one. One that is
// gone for good is fenced.
func TestLongerLeaseOverAFencedRegion(t *testing.T) {
	w := lent(t)
	w.cut[1] = true
	w.retime(30*time.Second, 20_000)
	w.runWithin(t, 5*time.Second)
	w.cut[0] = true // with a lease of the old length, and all but b's floor
	w.runWithin(t, time.Minute)
	w.cut[0] = false
	w.change(func(l *Ledger) error { return l.FenceRegion("b") })
	w.runUntil("nobody counts on the old lease", 5*time.Second, func() bool { return !w.ledger.Config.Retiming() })
}

// A shorter lease is granted at once, and the longer ones that run are waited for.
func TestShorterLease(t *testing.T) {
	w := lent(t)
	w.cut[0] = true // it spends by a lease of ten seconds
	w.retime(2*time.Second, 20_000)
	if c := w.ledger.Config; c.Lease != 2*time.Second || c.wait() != 10*time.Second {
		t.Fatalf("at first %+v", c)
	}
	w.runUntil("b has a shorter one", 2*time.Second, func() bool {
		left := w.regions[1].Info(w.now).LeaseRemaining
		return left > 0 && left <= 2*time.Second
	})
	w.cut[1] = true // it would be back at its floor after 4.2 s by the new lease
	w.load[2] = 10  // and c would have a's part after 2 s
	w.runWithin(t, 7*time.Second)
	if w.rate(0) < 980 {
		t.Fatalf("a has %d per mille: this test is to see it spend by its old lease", w.rate(0))
	}
	w.runWithin(t, 30*time.Second)
	if w.ledger.Config.Retiming() {
		t.Error("the old leases are over, and still waited for")
	}
	w.cut[0], w.cut[1] = false, false
	w.runWithin(t, 10*time.Second)
	c := w.regions[0].Config()
	if got := c.FloorAfter(); got > 5*time.Second {
		t.Errorf("a cut-off region waits %v", got)
	}
}

// With several changes in a row the shortest of all leases is granted and the longest is waited
// for.
func TestTimingChangedAgain(t *testing.T) {
	w := lent(t)
	w.cut[1] = true
	w.retime(30*time.Second, 20_000)
	w.retime(5*time.Second, 20_000)
	if c := w.ledger.Config; c.Lease != 5*time.Second || c.wait() != 30*time.Second || c.NextLease() != 5*time.Second {
		t.Errorf("%+v", c)
	}
	w.runWithin(t, 32*time.Second)
	if c := w.ledger.Config; c.Retiming() || c.wait() != 5*time.Second {
		t.Errorf("without b, who only waits longer: %+v", c)
	}
}

// A larger rho is used at once, and holds when every region has acknowledged it. A smaller one
// holds at once.
func TestRhoChanged(t *testing.T) {
	w := lent(t)
	w.cut[2] = true
	w.retime(10*time.Second, 50_000)
	if c := w.ledger.Config; c.RhoPPM != 50_000 || !c.RhoRising {
		t.Fatalf("%+v", c)
	}
	w.runWithin(t, 5*time.Second)
	if !w.ledger.Config.RhoRising {
		t.Error("c has not acknowledged")
	}
	w.cut[2] = false
	w.runUntil("c has", 5*time.Second, func() bool { return !w.ledger.Config.Retiming() })
	w.retime(10*time.Second, 30_000)
	if c := w.ledger.Config; c.RhoPPM != 30_000 || c.Retiming() {
		t.Errorf("a smaller one: %+v", c)
	}
}
