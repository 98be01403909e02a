package budget

import (
	"testing"
	"time"
)

// replace puts another daemon in a region's place, on the same store. It returns the previous
// daemon, which receives nothing any more and does not know that.
func (w *world) replace(i int, with *Region) (before *Region) {
	before, w.regions[i] = w.regions[i], with
	if before.inFlight != noCall {
		before.Step(CallFailed{}, w.now)
	}
	return before
}

// another returns a daemon of a region that has just started.
func (w *world) another(i int, incarnation uint64) *Region {
	r := NewRegion(i, w.ledger.Config, incarnation, w.now)
	r.Step(StoreEpoch{w.regions[i].storeEpoch}, w.now)
	return r
}

// sumWith returns what the regions may spend together while a daemon that was replaced spends for
// its region.
func (w *world) sumWith(earlier *Region) Share {
	sum := earlier.Right(w.key, w.limit, w.now).Effective()
	for i, r := range w.regions {
		if i != earlier.self {
			sum = sum.Add(r.Right(w.key, w.limit, w.now).Effective())
		}
	}
	return sum
}

// A daemon comes back while its own lease runs, after its region has lent its share through another
// daemon. A session tells it no more than the ledger has for it.
func TestADaemonThatComesBackKeepsNothingThatWasLent(t *testing.T) {
	w := lent(t)
	first := w.replace(0, w.another(0, 9))
	w.runUntil("the second daemon has a session", busyAfter+500*time.Millisecond, func() bool { return w.regions[0].session.open })
	w.load = []int64{0, 10, 0}
	w.runUntil("b has the rate", 2*time.Second, func() bool { return w.rate(1) >= 950 })
	w.far = []time.Duration{5 * tick, 0, 0}
	w.replace(0, first)
	w.runUntil("the first one has a session again", busyAfter+time.Second, func() bool { return first.session.open })
	if first.Phase(w.now) != Live {
		t.Fatal("its lease is over: this test is to see it run")
	}
	w.runWithin(t, 5*time.Second)
}

// A shorter lease of another daemon of the region does not shorten a longer one.
func TestAShorterLeaseOfAnotherDaemonEndsNoLongerOne(t *testing.T) {
	w := lent(t)
	w.run(time.Second)
	first := w.replace(0, w.another(0, 9)) // it spends by a lease of ten seconds
	w.retime(MinLease, 20_000)
	w.runUntil("the second daemon has a shorter one", 2*time.Second, func() bool { return w.regions[0].Phase(w.now) == Live })
	w.cut[0], w.load = true, []int64{0, 10, 0}
	for first.Phase(w.now) == Live {
		w.run(tick)
		if sum := w.sumWith(first); sum.Rate > Unit || sum.Burst > Unit {
			t.Fatalf("regions may spend %v of %d together, the first daemon %v", sum, Unit, first.Right(w.key, w.limit, w.now).Effective())
		}
	}
	w.runUntil("b has the rest when it is over", 5*time.Second, func() bool { return w.rate(1) >= 640 })
}

// Cold buckets are full in the contents with which a region's first session was opened, and in no
// later ones, however busy the log was at that time.
func TestOnlyTheFirstContentsStartFull(t *testing.T) {
	w := newWorld(t, 2)
	w.quorum, w.commits = tick, 20*tick
	w.far = []time.Duration{0, 2 * tick} // b's Hello finds those of a being recorded
	w.elect()
	w.runUntil("every region holds a lease", 5*time.Second, w.allLive)
	for i, r := range w.regions {
		if !r.StoreStartedFull() {
			t.Errorf("region %d does not start with full buckets", i)
		}
		r.Step(StoreEpoch{"later"}, w.now)
	}
	w.run(5 * time.Second)
	for i, r := range w.regions {
		if !r.session.open || r.StoreStartedFull() {
			t.Errorf("region %d has full buckets again (session %v)", i, r.session.open)
		}
	}
}

// A key that becomes hot while a region opens a session is covered for its floor. The region
// enforces that until it learns of the key.
func TestAKeyBecomesHotWhileARegionOpensASession(t *testing.T) {
	w := started(t, 2)
	w.far = []time.Duration{0, 10 * tick}
	w.regions[1].Step(StoreLost{}, w.now) // b says Hello again
	w.runUntil("b's session is open, and nothing of it acknowledged", time.Second, func() bool {
		return w.leader.regions[1].open && !w.leader.regions[1].acked && w.regions[1].inFlight == helloCall
	})
	w.load[0], w.bank[0] = 10, 0 // at once
	w.runUntil("the key is hot", 10*tick, func() bool { return w.ledger.Len() == 1 })
	if w.leader.regions[1].live {
		t.Fatal("b is live: this test is to see it become that")
	}
	w.runWithin(t, 2*time.Second)
	if w.rate(0) < 980 {
		t.Errorf("a has %d per mille in the end", w.rate(0))
	}
}
