package boottime

import (
	"time"

	"aliquot/budget"
)

// Reference compares the boot clock with the clock of one leader at a time. The clocks of a virtual
// machine may stop while it is paused or moved. Then no clock of the machine shows that time has
// passed, and a lease lasts beyond its end at the leader. Only the clock of another machine shows
// it, or a wall clock that an operator corrects (see Wall). A Reference compares differences only,
// never a reading of one clock with a reading of the other. The zero value has no reading. It is
// not safe for concurrent use.
//
// An example with rho = 2 %: the answer to a call that left at 10.00 s shows 500.00 s at the leader.
// The answer that is received at 11.00 s shows 503.00 s. At most 1.00 x 1.02 s can have passed there
// while this clock ran, so it was stopped for 1.98 s or more.
type Reference struct {
	leader uint64
	known  bool
	sent   budget.Instant
	other  int64
}

// Read takes a reading of the leader's clock: other, in microseconds, was read between the sending of
// a call and the receipt of its answer. leader is the leader's epoch. Read returns the least time for
// which this machine's clock was stopped since the earlier readings, and 0 if it may have run.
// rhoPPM bounds the difference of the rates of two clocks, in millionths.
func (r *Reference) Read(leader uint64, other int64, sent, received budget.Instant, rhoPPM int32) (stopped time.Duration) {
	if r.known && r.leader == leader {
		passed := time.Duration(other-r.other) * time.Microsecond
		stopped = max(0, passed-stretched(received.Sub(r.sent), rhoPPM))
		if stopped == 0 && stretched(sent.Sub(r.sent), rhoPPM) < passed {
			return 0 // the earlier reading says more
		}
	}
	r.leader, r.known, r.sent, r.other = leader, true, sent, other
	return stopped
}

// stretched returns the longest time that another clock may show while this one shows d.
func stretched(d time.Duration, rhoPPM int32) time.Duration {
	return d + d/1_000_000*time.Duration(rhoPPM) + time.Microsecond
}

// wallStep is the smallest step of the wall clock that counts. Programs that set clocks do not step
// them by less. A smaller step is within rho of a lease of five seconds.
const wallStep = 100 * time.Millisecond

// Wall compares the boot clock with the wall clock. The zero value has no reading. It is not
// safe for concurrent use.
type Wall struct {
	known bool
	boot  budget.Instant
	wall  time.Time
}

// Read takes a reading of both clocks. It returns how far the wall clock was set forward since the
// reading before, and 0 if that is less than wallStep.
func (w *Wall) Read(boot budget.Instant, wall time.Time) (stepped time.Duration) {
	wall = wall.Round(0) // Sub is not to go by the monotonic clock
	if w.known {
		if stepped = wall.Sub(w.wall) - boot.Sub(w.boot); stepped < wallStep {
			stepped = 0
		}
	}
	w.known, w.boot, w.wall = true, boot, wall
	return stepped
}
