package leader

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/rules"
)

// TestFillIsByTheSlowestClock: that every bucket has filled is waited for as long as the
// slowest store's clock that rho allows may take, at the smallest floor there is.
func TestFillIsByTheSlowestClock(t *testing.T) {
	set, _, err := rules.Parse("rules.yaml", []byte(`rules:
  - {id: strict, params: {capacity: 10, refill_rate: 1}}
  - {id: elastic, params: {capacity: 10, refill_rate: 1}, override: {vip: {capacity: 70, refill_rate: 1}}}
`)) // the slowest is the override: 70 at 1 a second
	if err != nil {
		t.Fatal(err)
	}
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
