package budget

import (
	"testing"
	"time"
)

// hourly returns a world whose key is a log of so many requests in any hour.
func hourly(t *testing.T, n int, capacity int64) *world {
	w := newWorld(t, n)
	w.limit = KeyLimit{Capacity: capacity * microToken, Rate: capacity * microToken / 3600, Tail: time.Hour}
	w.rights = &rights{used: make([][]Instant, n)}
	w.elect()
	w.runUntil("every region holds a lease", 2*time.Second, w.allLive)
	w.inForce(1, w.limit)
	return w
}

// use lets a region use so many requests, one at a time, and pauses.
func (w *world) use(i int, requests int64) {
	w.t.Helper()
	w.every, w.load[i] = 5, 1
	w.runUntil("the requests are admitted", time.Minute, func() bool { return w.inUse(i) >= requests })
	w.every, w.load[i] = 0, 0
	w.run(10 * time.Second)
}

// A region has used what another one lent, and that one falls silent. What is in use and the silent region's floor
// sum above the limit. The other leases go on, because other keys need them.
func TestSilenceBesideBorrowedUseEndsNoLease(t *testing.T) {
	for _, n := range []int{2, 3} {
		w := hourly(t, n, 300)
		w.use(0, 230)
		w.cut[1] = true
		w.run(30 * time.Second)
		if in := w.leader.keys[w.key].regions[0].inUse; in+w.ledger.Config.Regions[1].Floor.Burst <= Unit {
			t.Fatalf("%d regions: a has %d in use; this test is to see more than b's floor leaves", n, in)
		}
		before := w.renewed[0]
		w.run(10 * time.Minute)
		if got := w.renewed[0] - before; got < 595 {
			t.Errorf("%d regions: a's lease was renewed %d times in 10 minutes", n, got)
		}
		w.cut[1] = false
		w.load[1] = 3
		w.runUntil("b is back and uses what is left", time.Minute, func() bool { return w.inUse(1) >= 64 }) // I3 holds meanwhile
	}
}

// Other rules come into force while a region that holds all of a limit is idle. It still tells how much of its use counts:
// its store counts by a limit, whether a request has told the region that limit or not.
func TestUseIsToldUnderNewRulesWithoutARequest(t *testing.T) {
	w := hourly(t, 2, 90)
	w.use(0, 60)
	w.inForce(2, w.limit)
	w.run(time.Second)
	w.load[1] = 3
	w.runUntil("b has what nobody uses", 10*time.Second, func() bool { return w.inUse(1) == 29 })
	if in, used := w.regions[0].hot[w.key].inUse, partOf(60, 90); in != used {
		t.Errorf("a tells %d in use, want %d", in, used)
	}
}

// A region lends what it does not use and keeps a little besides its use. When it asks again, what is in use is the
// beginning of its share: it gets all that nobody uses.
func TestARegionGrowsFromItsUse(t *testing.T) {
	for _, n := range []int{2, 3} {
		w := hourly(t, n, 300)
		w.use(1, 30)
		w.use(0, 230)
		w.load[1] = 3
		w.runUntil("b has what nobody uses", 10*time.Second, func() bool { return w.inUse(1) >= 66 })
		w.run(time.Second)
		if in := w.inUse(0) + w.inUse(1); in > 300 {
			t.Errorf("%d regions: %d in use of 300", n, in)
		}
	}
}

// A weight changes, and nothing is fenced. A client gets what nobody uses as before, under the new floors and each step
// to them.
func TestAChangeOfWeightsLetsUnusedRightsMove(t *testing.T) {
	w := hourly(t, 2, 90)
	w.change(func(l *Ledger) error { return l.UpdateRegion("a", 2) })
	w.inForce(1, w.limit)
	w.load[1] = 3
	w.runUntil("b has the limit", 20*time.Second, func() bool { return w.inUse(1) >= 88 })
	w.load[1] = 0
	w.runUntil("the floors have moved", 2*time.Hour, w.steady)
	w.inForce(1, w.limit)
	if w.ledger.Config.Settled() {
		t.Fatal("this test is to see floors that are not settled")
	}
	w.run(time.Hour)
	w.load[0] = 3
	w.runUntil("a has the limit", 20*time.Second, func() bool { return w.inUse(0) >= 88 })
}

// A region that was added has no floor yet and borrows a limit. If it is fenced then, its use counts for a tail, although
// no floor is free.
func TestFencedUseCountsWithoutAFloor(t *testing.T) {
	w := counting(t, 2)
	w.join(2)
	w.rights.used = append(w.rights.used, nil)
	w.change(func(l *Ledger) error { return l.AddRegion("c", 1) })
	w.runUntil("c has joined", time.Minute, func() bool { return w.ledger.Config.Regions[2].Joined })
	w.load[2] = 3
	w.runUntil("c uses what others lend", 8*time.Second, func() bool { return w.inUse(2) >= 80 })
	if !w.ledger.Config.Regions[2].Gone() {
		t.Fatal("this test is to see a region without a floor")
	}
	w.load, w.cut[2] = []int64{3, 0, 0}, true
	w.change(func(l *Ledger) error { return l.FenceRegion("c") })
	fenced := w.now
	w.runUntil("a has the rest", time.Minute, func() bool { return w.capOf(0) >= 84 }) // I3 holds meanwhile
	if took := w.now.Sub(fenced); took < w.limit.Tail {
		t.Errorf("%v after c was fenced", took)
	}
}
