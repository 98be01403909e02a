//go:build !linux

package budget_test

import "time"

// cpuClock is the wall's clock where a thread's own cannot be read.
func cpuClock() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
