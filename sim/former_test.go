package sim

import (
	"testing"
	"time"

	"aliquot/limit"
)

const seeds = 8

// TestRulesThatChange: worlds whose operator lowers and raises bursts and rates, apart and
// together, for good and for a while, and clients that come back when their records are gone.
func TestRulesThatChange(t *testing.T) {
	for seed := range uint64(150) {
		opts := Options{
			Algorithms: []limit.Algorithm{limit.TokenBucket, limit.LeakyBucket}, confined: true,
			faults: []fault{lowerLimit, raiseLimit, restart, cutBothWays, leaderDies},
		}
		if w := live(seed, opts, worldSpan-recovery); w.failure != nil {
			t.Errorf("seed %d: %s", seed, w.failure)
		}
	}
}

// TestCalmRuleThatIsSlowed: a client that drained its bucket, and comes back when its record is
// gone, has what the slower rule earned.
func TestCalmRuleThatIsSlowed(t *testing.T) {
	w := calm(t, of(300, 100), Behaviour{mode: greedy})
	w.pass(t, 5*time.Second)
	w.changeRules("slowed", w.rules[0], func(version uint64) { w.rules[0].changes(version, of(300, 1), 0) })
	w.pass(t, time.Second)
	w.clients[0].mode = idle
}
