package regional

import (
	"time"

	"aliquot/budget"
	"aliquot/internal/boottime"
)

// A machine that was paused may come back with clocks that stood still. The leader's clock,
// the store's and the wall clock show it, each if it ran on, or was set right, meanwhile.

// compare takes what the clock of the leader with an epoch showed in the answer to a call
// that was sent at an instant; 0 is nothing. It comes before the answer is believed. A lease
// outlives its session, so readings of several sessions are compared.
func (r *reporter) compare(leader uint64, shows int64, sent budget.Instant) {
	if shows == 0 {
		return
	}
	if stopped := r.reference.Read(leader, shows, sent, r.auth.now(), int32(r.auth.clock.drift())); stopped > 0 {
		r.stoodStill("by the leader's clock", stopped)
	}
}

// sameInstant is how long reading both clocks may take for them to belong together.
const sameInstant = time.Millisecond

// watchWall compares the wall clock with the boot clock.
func (r *reporter) watchWall() {
	if r.wall == nil {
		return
	}
	before := time.Now()
	boot := r.auth.now()
	if wall := time.Now(); wall.Sub(before) < sameInstant {
		if stepped := r.wall.Read(boot, wall); stepped > 0 {
			r.stoodStill("by the wall clock, which was set forward", stepped)
		}
	}
}

// stoodStill gives up the session and its lease, which this machine's clock has measured.
func (r *reporter) stoodStill(by string, stopped time.Duration) {
	r.log.Warn("this machine's clock stood still, as that of a paused virtual machine does; the lease is given up", "seen", by, "for_at_least", stopped)
	r.auth.post(budget.ClockStopped{})
}

// newWall is a wall clock to be watched, if the daemon goes by this machine's boot clock.
func newWall(bootClock bool) *boottime.Wall {
	if !bootClock {
		return nil
	}
	return &boottime.Wall{}
}
