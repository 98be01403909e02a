package bench

import (
	"testing"
	"testing/synctest"
	"time"
)

// step is a short step of a load between two regions.
func step(load Config) StepConfig {
	c := StepConfig{Config: load, Before: time.Second, After: 2 * time.Second}
	c.Rate, c.Batch = 1000, 5
	return c
}

func TestStepOfAnIdealLimiterConvergesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := Limit{Capacity: 50, Refill: 100}
		one := newBucket(limit)
		r, err := Step(t.Context(), step(over(limit, one, one)))
		if err != nil {
			t.Fatal(err)
		}
		if r.Whole.Exceeded() || r.Whole.Failed > 0 {
			t.Errorf("worst %+v, failed %d", r.Whole.Worst, r.Whole.Failed)
		}
		if r.Before.Admitted+r.After.Admitted != r.Whole.Admitted {
			t.Errorf("%d and %d admitted make %d", r.Before.Admitted, r.After.Admitted, r.Whole.Admitted)
		}
		if r.After.Admitted < 190 || r.Converged > 100*time.Millisecond {
			t.Errorf("%d admitted after it, converged after %v", r.After.Admitted, r.Converged)
		}
	})
}

// A region that never gets the limit does not converge before the end.
func TestStepIntoARegionWithAThird(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		third := Limit{Capacity: 20, Refill: 33}
		r, err := Step(t.Context(), step(over(Limit{Capacity: 50, Refill: 100}, newBucket(third), newBucket(third))))
		if err != nil {
			t.Fatal(err)
		}
		if r.Converged < 1900*time.Millisecond {
			t.Errorf("converged after %v at a third of the rate", r.Converged)
		}
	})
}

func TestFloodBesideADemand(t *testing.T) {
	limit := Limit{Capacity: 30, Refill: 100}
	for _, c := range []struct {
		what      string
		apart     bool // each region has a bucket of half the limit
		low, high float64
	}{{"one bucket for both", false, 0, .8}, {"half the limit each", true, .95, 1.3}} {
		synctest.Test(t, func(t *testing.T) {
			a := newBucket(limit)
			b := a
			if c.apart {
				a, b = newBucket(Limit{Capacity: 15, Refill: 50}), newBucket(Limit{Capacity: 15, Refill: 50})
			}
			config := FloodConfig{Config: over(limit, a, b), FloodBatch: 100, Quiet: 200 * time.Millisecond}
			config.Rate, config.Duration = 45, 2*time.Second
			r, err := Flood(t.Context(), config, 2)
			if err != nil {
				t.Fatal(err)
			}
			if r.Whole.Exceeded() {
				t.Errorf("%s: worst %+v", c.what, r.Whole.Worst)
			}
			if r.Flood.Offered < 1000 || r.Served < c.low || r.Served > c.high {
				t.Errorf("%s: %d retries, the other region is served %.3f", c.what, r.Flood.Offered, r.Served)
			}
		})
	}
}

func TestStreamsSayWhatIsWrong(t *testing.T) {
	bad := step(short(Limit{Capacity: 1, Refill: 1}, "a"))
	if bad.Validate() == nil {
		t.Error("a step with one region is accepted")
	}
	bad.Regions, bad.After = []string{"a", "b"}, 0
	if bad.Validate() == nil {
		t.Error("a step without a second part is accepted")
	}
	flood := FloodConfig{Config: short(Limit{Capacity: 1, Refill: 1}, "a", "b"), FloodBatch: 1}
	if flood.Validate() == nil {
		t.Error("a flood beside no demand is accepted")
	}
	flood.Rate, flood.FloodBatch = 1, 0
	if flood.Validate() == nil {
		t.Error("a flood of no requests is accepted")
	}
}
