// Package boottime reads the clock that runs while the machine sleeps. A lease must
// not survive a suspend, and Go's own monotonic clock stops there on Linux.
package boottime

import (
	"golang.org/x/sys/unix"

	"aliquot/budget"
)

// Now returns the time since an instant that is fixed until the machine boots again. It never goes
// back. Safe for concurrent use.
func Now() budget.Instant {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		panic("boottime: the clock cannot be read: " + err.Error()) // every supported kernel has it
	}
	return budget.Instant(t.Nano())
}
