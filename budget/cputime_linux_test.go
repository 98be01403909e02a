package budget_test

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// cpuClock reads the time that this goroutine's thread has spent on a core: what else
// the machine does is not counted.
func cpuClock() func() time.Duration {
	runtime.LockOSThread()
	return func() time.Duration {
		var t unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
			panic(err)
		}
		return time.Duration(t.Nano())
	}
}
