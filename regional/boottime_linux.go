package regional

import (
	"golang.org/x/sys/unix"

	"aliquot/budget"
)

// BootTime reads CLOCK_BOOTTIME, which runs while the machine sleeps; Go's own
// monotonic clock does not, and a lease must not survive a suspend.
func BootTime() budget.Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("regional: CLOCK_BOOTTIME cannot be read: " + err.Error()) // Linux >= 2.6.39 has it
	}
	return budget.Instant(ts.Nano())
}
