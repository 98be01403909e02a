package regional

import (
	"testing"
	"time"

	"aliquot/budget"
)

// Windows of the store in this process are those of the wall clock at its start, however
// long the machine has been up.
func TestWindowsInMemoryAreThoseOfTheWallClock(t *testing.T) {
	booted := budget.Instant(5*time.Hour + 7*time.Minute)
	now := booted
	start := time.Date(2026, 11, 21, 23, 59, 0, 0, time.UTC)
	clock := windowClock(func() budget.Instant { return now }, start)
	if got := clock(); got != start.UnixMicro() {
		t.Errorf("the clock begins at %d, want %d", got, start.UnixMicro())
	}
	now = booted + budget.Instant(time.Minute)
	if day := (24 * time.Hour).Microseconds(); clock()%day != 0 {
		t.Errorf("a day of the store begins %d microseconds before midnight", clock()%day)
	}
}
