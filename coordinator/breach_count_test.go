package coordinator

import (
	"testing"
	"time"
)

// TestBreachBookKeepsTheLogSmall: every breach is counted, few are logged.
func TestBreachBookKeepsTheLogSmall(t *testing.T) {
	var b breachBook
	began, lines := time.Unix(1_700_000_000, 0), 0
	for i := range 1000 {
		if b.count(uint32(i%20), began.Add(time.Duration(i)*time.Millisecond)) {
			lines++
		}
	}
	if lines != maxBreachLines || b.of(3) != 50 {
		t.Errorf("%d lines in a second, want %d; rule 3 counted %d times, want 50", lines, maxBreachLines, b.of(3))
	}
	lines = 0
	for i := range 600 { // one rule for ten minutes
		if b.count(3, began.Add(time.Minute+time.Duration(i)*time.Second)) {
			lines++
		}
	}
	if lines != 10 {
		t.Errorf("%d lines in ten minutes about one rule, want 10", lines)
	}
	b.keep(func(rule uint32) bool { return rule == 3 })
	if b.of(3) != 650 || b.of(4) != 0 {
		t.Errorf("counts %d and %d, want 650 and that of a rule that is gone", b.of(3), b.of(4))
	}
}
