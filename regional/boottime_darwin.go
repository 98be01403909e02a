package regional

import (
	"golang.org/x/sys/unix"

	"aliquot/budget"
)

// BootTime reads macOS's CLOCK_MONOTONIC, which runs while the machine sleeps.
func BootTime() budget.Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("regional: CLOCK_MONOTONIC cannot be read: " + err.Error())
	}
	return budget.Instant(ts.Nano())
}
