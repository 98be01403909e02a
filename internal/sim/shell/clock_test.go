package shell

import (
	"testing"

	"aliquot/budget"
	"aliquot/limit"
)

// TestALeapIsFound: a reading beyond what a clock within rho can have come to shows that
// the clock was set forward, and one within it, or of a clock set back, does not. When it
// was is told in the clock's present time, however that is set later.
func TestALeapIsFound(t *testing.T) {
	at := func(s int64) budget.Instant { return budget.Instant(s * second) }
	m := ClockMap{Rho: 20_000}
	m.Sample(50*million, at(100), at(100))
	m.Sample(60*million+200_000, at(110), at(110)) // 2 % fast
	m.Sample(60*million, at(111), at(111))         // set back
	if m.Leapt() != 0 {
		t.Fatalf("a leap at %d that was none", m.Leapt())
	}
	m.Sample(61*million+20_001, at(112), at(112))
	if m.Leapt() != 61*million+20_001 {
		t.Errorf("a leap at %d", m.Leapt())
	}
	m.Sample(10*million, at(113), at(113)) // set back
	if at := m.Leapt(); at < 9*million || at > 9*million+40_000 {
		t.Errorf("by the clock that was set back a leap at %d", at)
	}
	m.Reset()
	if m.Leapt() != limit.MaxExact {
		t.Errorf("by no clock a leap at %d", m.Leapt())
	}
}

// TestRestartForgetsTheEarlierClock but not that it leapt.
func TestRestartForgetsTheEarlierClock(t *testing.T) {
	m := ClockMap{Rho: 20_000}
	m.Sample(50*million, budget.Instant(100*second), budget.Instant(100*second))
	early := m.Since(budget.Instant(99 * second))
	m.Restart(150*million, budget.Instant(101*second), budget.Instant(101*second))
	if since := m.Since(budget.Instant(99 * second)); since < early+90*million || m.Leapt() != 150*million {
		t.Errorf("an instant before the leap is at %d, the leap at %d", since, m.Leapt())
	}
}
