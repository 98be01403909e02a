package bench

import (
	"fmt"
	"testing"
	"time"
)

// stepConfig is a short step between two regions.
func stepConfig(limit Limit, regions ...string) StepConfig {
	c := StepConfig{Config: short(limit, regions...), Before: time.Second, After: 2 * time.Second}
	c.Rate, c.Batch = 1000, 5
	return c
}

func TestStepOfAnIdealLimiterConvergesAtOnce(t *testing.T) {
	limit := Limit{Capacity: 50, Refill: 100}
	inSome(t, func() error {
		one := serve(t, newBucket(limit))
		r, err := Step(t.Context(), stepConfig(limit, one, one))
		if err != nil {
			t.Fatal(err)
		}
		if r.Whole.Exceeded() || r.Whole.Failed > 0 {
			t.Errorf("worst %+v, failed %d", r.Whole.Worst, r.Whole.Failed)
		}
		if r.Before.Admitted+r.After.Admitted != r.Whole.Admitted {
			t.Errorf("%d and %d admitted make %d", r.Before.Admitted, r.After.Admitted, r.Whole.Admitted)
		}
		if r.After.Admitted < 100 || r.Converged > time.Second {
			return fmt.Errorf("%d admitted after it, converged after %v", r.After.Admitted, r.Converged)
		}
		return nil
	})
}

// A region that never gets the limit does not converge before the end.
func TestStepIntoARegionWithAThird(t *testing.T) {
	third := Limit{Capacity: 20, Refill: 33}
	inSome(t, func() error {
		r, err := Step(t.Context(), stepConfig(Limit{Capacity: 50, Refill: 100}, serve(t, newBucket(third)), serve(t, newBucket(third))))
		if err != nil {
			t.Fatal(err)
		}
		if r.Converged < 1800*time.Millisecond {
			return fmt.Errorf("converged after %v at a third of the rate", r.Converged)
		}
		return nil
	})
}

func TestFloodBesideADemand(t *testing.T) {
	limit := Limit{Capacity: 30, Refill: 100}
	for _, c := range []struct {
		what      string
		apart     bool // each region has a bucket of half the limit
		low, high float64
	}{{"one bucket for both", false, 0, .8}, {"half the limit each", true, .85, 1.3}} {
		inSome(t, func() error {
			a := newBucket(limit)
			b := a
			if c.apart {
				a, b = newBucket(Limit{Capacity: 15, Refill: 50}), newBucket(Limit{Capacity: 15, Refill: 50})
			}
			config := FloodConfig{Config: short(limit, serve(t, a), serve(t, b)), FloodBatch: 100, Quiet: 200 * time.Millisecond}
			config.Rate, config.Duration = 45, 2*time.Second
			r, err := Flood(t.Context(), config, 2)
			if err != nil {
				t.Fatal(err)
			}
			if r.Whole.Exceeded() {
				t.Errorf("%s: worst %+v", c.what, r.Whole.Worst)
			}
			if r.Flood.Offered < 1000 || r.Served < c.low || r.Served > c.high {
				return fmt.Errorf("%s: %d retries, the other region is served %.3f", c.what, r.Flood.Offered, r.Served)
			}
			return nil
		})
	}
}

func TestStreamsSayWhatIsWrong(t *testing.T) {
	step := stepConfig(Limit{Capacity: 1, Refill: 1}, "a")
	if step.Validate() == nil {
		t.Error("a step with one region is accepted")
	}
	step.Regions, step.After = []string{"a", "b"}, 0
	if step.Validate() == nil {
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
