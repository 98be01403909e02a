package sim

import (
	"testing"

	"aliquot/internal/sim/faults"
	"aliquot/limit"
)

// TestMachinesThatStoodStill: worlds whose machines stand still, with what hides it from their
// daemons. Of seeds 27 and 49 an answer was on its way meanwhile, and renewed the lease.
func TestMachinesThatStoodStill(t *testing.T) {
	opts := Options{
		faults:     []faults.Kind{faults.StopClocks, faults.TurnClocks, faults.Restart, faults.Flush, faults.RollBack, faults.PauseCoordinator, faults.StuckForAll},
		Algorithms: []limit.Algorithm{limit.TokenBucket, limit.LeakyBucket}, confined: true,
	}
	for _, seed := range []uint64{27, 31, 49, 50, 51, 52, 53, 54, 55, 56} {
		if w := live(seed, opts, worldSpan-recovery); w.failure != nil {
			t.Errorf("seed %d: %s", seed, w.failure)
		}
	}
}
