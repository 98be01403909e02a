package coordinator

import (
	"testing"
	"time"

	"aliquot/budget"
)

// TestFillIsByTheSlowestClock: that every bucket has filled is waited for as long as the
// slowest store's clock that rho allows may take, at the smallest floor there is.
func TestFillIsByTheSlowestClock(t *testing.T) {
	set := parsed(t, ruleOfEach) // the slowest is the override: 70 at 1 a second
	for _, rho := range []int32{budget.MinRhoPPM, 20_000, budget.MaxRhoPPM} {
		c := budget.NewConfig([]string{"a", "b", "c", "d"}, 10*time.Second, rho)
		filled := 280 * time.Second
		least := filled + filled*time.Duration(rho)/million
		if got := slowestFill(set, &c); got < least || got > least+2*fillSlack {
			t.Errorf("rho %d ppm: %v, want %v and a little", rho, got, least)
		}
	}
	if c := budget.NewConfig([]string{"a"}, 10*time.Second, 20_000); slowestFill(nil, &c) != fillSlack {
		t.Error("without rules there is nothing to wait for but what is under way")
	}
}
