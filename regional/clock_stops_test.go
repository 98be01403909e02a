package regional

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/storeclock"
)

// opened is how many sessions a leader has opened.
func (l *leader) opened() (n uint64) {
	l.set(func() { n = l.session })
	return n
}

// TestALeaseEndsWithAClockThatStoodStill: by the leader's clock more time has passed between
// two of its answers than by the daemon's. Its lease is over at once, and the next session
// has another one.
func TestALeaseEndsWithAClockThatStoodStill(t *testing.T) {
	l := newLeader(t, ruled("strict"))
	d, _ := startLive(t, testConfig(l.address()))
	before := l.opened()
	clock := l.clock
	l.set(func() {
		l.mean = true // no lease is renewed: what is lost stays lost
		l.clock = func() int64 { return clock() + (3 * time.Second).Microseconds() }
	})
	eventually(t, "another session is opened", func() bool { return l.opened() > before })
	if phase := d.auth.info().Phase; phase != budget.Limbo {
		t.Errorf("without another lease the phase is %v", phase)
	}
	l.set(func() { l.mean = false })
	eventually(t, "it has a lease again", func() bool { return d.auth.info().Phase == budget.Live })
}

// TestAStepOfTheStoresClockIsDistrusted: nothing tells it from a clock of the daemon's that
// was stopped.
func TestAStepOfTheStoresClockIsDistrusted(t *testing.T) {
	now := 100 * second
	a := newAuthority(budget.NewRegion(0, budget.Config{}, 1, now), storeclock.New(), func() budget.Instant { return now })
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
		now += second
	}
}

// TestTheWallClockIsWatchedBesideTheBootClock alone: a clock that a test sets has none.
func TestTheWallClockIsWatchedBesideTheBootClock(t *testing.T) {
	c := testConfig(newLeader(t, ruled("strict")).address())
	d, _ := start(t, c)
	if d.reporter.wall == nil {
		t.Error("nobody looks at the wall clock")
	}
	c.Now = func() budget.Instant { return noon }
	if d, _ := start(t, c); d.reporter.wall != nil {
		t.Error("it is compared with a clock of the test's")
	}
}
