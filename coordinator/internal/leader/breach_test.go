package leader

import (
	"testing"
)

// TestBreachCounterForgetsOldRules: every breach is counted, by rule, until the rule goes.
func TestBreachCounterForgetsOldRules(t *testing.T) {
	var b breachCounter
	for i := range 1000 {
		b.add(uint32(i % 20))
	}
	if b.of(3) != 50 {
		t.Errorf("rule 3 counted %d times, want 50", b.of(3))
	}
	b.keep(func(rule uint32) bool { return rule == 3 })
	if b.of(3) != 50 || b.of(4) != 0 {
		t.Errorf("counts %d and %d, want 50 and that of a rule that is gone", b.of(3), b.of(4))
	}
}
