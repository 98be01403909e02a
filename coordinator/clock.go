package coordinator

import (
	"golang.org/x/sys/unix"

	"aliquot/budget"
)

// bootClock reads the clock that runs while the machine sleeps: a lease must not
// outlast a suspended laptop, and Go's own monotonic clock stops there on Linux.
func bootClock() budget.Instant {
	var t unix.Timespec
	if err := unix.ClockGettime(bootClockID, &t); err != nil {
		panic("coordinator: no boot clock: " + err.Error()) // every supported kernel has it
	}
	return budget.Instant(t.Nano())
}
