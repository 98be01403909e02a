package sim

import (
	"slices"
	"testing"

	"aliquot/internal/sim/faults"
	"aliquot/limit"
)

// TestRulesThatChange: worlds whose operator lowers and raises bursts and rates, apart and
// together, for good and for a while, and clients that come back when their records are gone.
func TestRulesThatChange(t *testing.T) {
	for seed := range uint64(20) {
		opts := Options{
			Algorithms: []limit.Algorithm{limit.TokenBucket, limit.LeakyBucket}, confined: true,
			faults: []faults.Kind{faults.LowerLimit, faults.RaiseLimit, faults.Restart, faults.NoCoordinators, faults.CutBothWays},
		}
		if w := live(seed, opts, worldSpan-recovery); w.failure != nil {
			t.Errorf("seed %d: %s", seed, w.failure)
		}
	}
}

// TestCountingLimitsThatChange: worlds whose operator changes the capacities and the windows of limits that count,
// together and apart, in all regions or in some of them first.
func TestCountingLimitsThatChange(t *testing.T) {
	counting := slices.DeleteFunc(limit.Algorithms(), func(a limit.Algorithm) bool { return !a.Counts() })
	for seed := range uint64(40) {
		opts := Options{
			Algorithms: []limit.Algorithm{counting[int(seed)%len(counting)]}, confined: true,
			faults: []faults.Kind{
				faults.LowerLimit, faults.RaiseLimit, faults.StageLimit, faults.Restart, faults.NoCoordinators, faults.CutBothWays,
			},
		}
		if w := live(seed, opts, worldSpan-recovery); w.failure != nil {
			t.Errorf("seed %d: %s", seed, w.failure)
		}
	}
}
