package boottime

import (
	"time"

	"aliquot/budget"
)

// A virtual machine that is paused, or moved, may come back with clocks that were stopped:
// they all show that no time has passed, and a lease outlives its end at the leader. Nothing
// on the machine tells of that, but another machine's clock does, and so does a wall clock
// that an operator sets right.

// Reference compares the boot clock with that of another machine, of one leader at a time.
// Only differences count: no reading of one clock is compared with one of the other. The zero
// value has no reading. It is not safe for concurrent use.
//
// Worked number, rho = 2 %: an answer to a call that left at 10.00 s here shows 500.00 s
// there; an answer that is received at 11.00 s shows 503.00 s. At most 1.00 x 1.02 s can have
// passed there while this clock ran, so it was stopped for 1.98 s or more.
type Reference struct {
	leader uint64
	known  bool
	sent   budget.Instant
	other  int64
}

// Read takes a reading of the clock of the leader with an epoch, microseconds, that was made
// between the sending of a call and the receipt of its answer. It returns for how long at
// least this machine's clock was stopped since earlier readings of the same clock; 0 if it
// need not have. rhoPPM bounds how differently two clocks may run, in millionths.
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

func stretched(d time.Duration, rhoPPM int32) time.Duration {
	return d + d/1_000_000*time.Duration(rhoPPM) + time.Microsecond
}

// wallStep is by how much a wall clock must have been set forward to count: no daemon that
// keeps clocks steps by less. What is smaller is within rho of a lease of five seconds.
const wallStep = 100 * time.Millisecond

// Wall compares the boot clock with the wall clock. The zero value has no reading. It is not
// safe for concurrent use.
type Wall struct {
	known bool
	boot  budget.Instant
	wall  time.Time
}

// Read takes a reading of both clocks and returns by how much the wall clock was set forward
// since the one before; 0 if it was not, or by less than a tenth of a second.
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
