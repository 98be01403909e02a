//go:build !linux

package budget_test

import "time"

// cpuClock returns a wall clock where a thread's own clock cannot be read.
func cpuClock() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
