package boottime

import (
	"testing"
	"time"

	"aliquot/budget"
)

// TestClockFollowsTheBootClock: each reading lies between two of the boot clock, but for
// the time it may be behind.
func TestClockFollowsTheBootClock(t *testing.T) {
	var c Clock
	const behind = budget.Instant(time.Millisecond)
	for range 100_000 {
		before := Now()
		got, _ := c.Read()
		if after := Now(); got < before-behind || got > after+behind {
			t.Fatalf("%d is not between %d and %d", got, before, after)
		}
	}
}

// TestAnchorDoesNotOutliveASleep: Go's monotonic clock did not run, its wall clock did.
func TestAnchorDoesNotOutliveASleep(t *testing.T) {
	for _, c := range []struct {
		awake, passed time.Duration
		want          bool
	}{
		{0, 0, true},
		{10 * time.Millisecond, 10*time.Millisecond + time.Microsecond, true},
		{10 * time.Millisecond, time.Minute, false},  // asleep
		{10 * time.Millisecond, -time.Minute, false}, // the wall clock was set back
		{anchorFor, anchorFor, false},
	} {
		if got := holds(c.awake, c.passed); got != c.want {
			t.Errorf("after %v, %v by the wall clock: %t", c.awake, c.passed, got)
		}
	}
}

func BenchmarkClock(b *testing.B) {
	var c Clock
	for b.Loop() {
		c.Read()
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}
