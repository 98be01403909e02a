package regional

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/storeclock"
	"aliquot/regional/internal/charge/chargetest"
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
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, ruled("strict"))
		d, _ := startLive(t, testConfig(l.address()))
		before := l.opened()
		clock := l.clock
		l.set(func() {
			l.mean = true // no lease is renewed: what is lost stays lost
			l.clock = func() int64 { return clock() + (3 * time.Second).Microseconds() }
		})
		eventually(t, "another session is opened", func() bool { return l.opened() > before })
		if phase := d.auth.Info().Phase; phase != budget.Limbo {
			t.Errorf("without another lease the phase is %v", phase)
		}
		l.set(func() { l.mean = false })
		eventually(t, "it has a lease again", func() bool { return d.auth.Info().Phase == budget.Live })
	})
}

// TestAClockThatStoppedByTheStoresClock: when the store's clock shows that the daemon's own clock had stopped, what is
// remembered of the store's records does not count, until a coordinator answers a report: another daemon may have spent
// meanwhile. An answer of the store shows it, or a call that came too late.
func TestAClockThatStoppedByTheStoresClock(t *testing.T) {
	for name, shows := range map[string]func(o observer, epoch string, s storeclock.Sample) bool{
		"in an answer": observer.Sample, "in a late call": observer.ClockWasSet,
	} {
		t.Run(name, func(t *testing.T) {
			inNetwork(t, func(t *testing.T) {
				d, _ := startLive(t, testConfig(newLeader(t, ruled("strict")).address()))
				check(t, d, "k")
				if d.emergency.Keep() == nil {
					t.Fatal("nothing is remembered")
				}
				now := d.cfg.Now()
				ahead := d.auth.Clock.Until(now) + (3 * time.Second).Microseconds()
				if !shows(observer{d.auth, d.emergency, &d.lists}, d.auth.CurrentEpoch(), storeclock.Sample{Store: ahead, Sent: now, Received: now}) {
					t.Fatal("the daemon did not notice that its clock had stopped")
				}
				if d.emergency.Keep() != nil {
					t.Error("what is remembered counts all the same")
				}
				eventually(t, "it counts again", func() bool { return d.emergency.Keep() != nil })
			})
		})
	}
}

// TestTheWallClockIsWatchedBesideTheBootClock alone: a clock that a test sets has none.
func TestTheWallClockIsWatchedBesideTheBootClock(t *testing.T) {
	c := testConfig(newLeader(t, ruled("strict")).address())
	d, _ := start(t, c)
	if !d.cfg.bootClock {
		t.Error("nobody looks at the wall clock")
	}
	c.Now = func() budget.Instant { return chargetest.Noon }
	if d, _ := start(t, c); d.cfg.bootClock {
		t.Error("it is compared with a clock of the test's")
	}
}
