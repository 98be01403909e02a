package budget_test

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// cpuClock returns a clock of the CPU time of this goroutine's thread: other work of the host does
// not count.
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
