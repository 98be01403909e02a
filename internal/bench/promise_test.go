package bench

import (
	"testing"
	"testing/synctest"
	"time"

	"aliquot/rules"
)

func TestTheBoundDependsOnTheEnforcement(t *testing.T) {
	for enforcement, want := range map[string]float64{
		rules.Strict: 300 + 1000, rules.Elastic: 900 + 1000, rules.Independent: 900 + 3000,
	} {
		p := promise{limit: Limit{Capacity: 300, Refill: 100}, enforcement: enforcement, regions: 3}
		if got := p.bucket().Bound(10 * time.Second); got != want {
			t.Errorf("%s: %v, want %v", enforcement, got, want)
		}
	}
}

// rotated is a run over three limiters that know nothing of each other.
func rotated(t *testing.T, enforcement string, l Limit) *Report {
	c := over(l, newBucket(l), newBucket(l), newBucket(l))
	c.Enforcement, c.Batch = enforcement, 10
	return mustRotate(t, c)
}

func TestIndependentRegionsKeepTheirOwnBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rotated(t, rules.Independent, Limit{Capacity: 30, Refill: 10})
		if r.Exceeded() || r.WorstOfBound.Gain > 1 {
			t.Errorf("of bound %v, worst %+v", r.OfBound, r.WorstOfBound)
		}
		if r.Gain > 3 || r.Worst.Gain < r.Gain {
			t.Errorf("gain %v, worst %+v", r.Gain, r.Worst)
		}
		if r.Bound < 2.9*r.StrictBound || r.Enforcement != rules.Independent {
			t.Errorf("bounds %v and %v, %s", r.StrictBound, r.Bound, r.Enforcement)
		}
		if r.OfBound < .95 || r.Gain < 2.8 || r.Utilisation.Min < .95 {
			t.Errorf("of bound %v, gain %v, utilisation %+v", r.OfBound, r.Gain, r.Utilisation)
		}
	})
}

// A limit with a small burst makes the rate tell: three times the rate is more than
// an elastic rule promises, three times the burst is not.
func TestElasticRegionsAreCaughtWhenTheRateMultiplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rotated(t, rules.Elastic, Limit{Capacity: 5, Refill: 100})
		if !r.Exceeded() || r.WorstOfBound.Gain < r.OfBound {
			t.Errorf("of bound %v, worst %+v", r.OfBound, r.WorstOfBound)
		}
		r = rotated(t, rules.Elastic, Limit{Capacity: 100, Refill: .001})
		if r.Exceeded() || r.OfBound < .99 || r.Gain < 2.9 {
			t.Errorf("of bound %v, gain %v, worst %+v", r.OfBound, r.Gain, r.WorstOfBound)
		}
	})
}
