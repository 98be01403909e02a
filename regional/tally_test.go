package regional

import (
	"fmt"
	"testing"

	"aliquot/limit"
)

// TestTally: nothing that a call decided is lost, or counted twice, also where it is of more
// kinds than a tally has rows, and under another version of the rules.
func TestTally(t *testing.T) {
	d, _ := startLive(t, testConfig(newLeader(t, roomyRule).address()))
	const kinds, rounds = 3 * tallyRows / 2, 5
	m := d.metrics
	var before, after decisionCounts
	var counted tally
	for i := range rounds * kinds {
		what := outcomes[i%len(outcomes)]
		counted.decided(m, "r0", what, modes[i%kinds%len(modes)]).charged(2*limit.Token, what == "allowed")
		if i < kinds {
			counted.under(&before, true)
		} else {
			counted.under(&after, i%2 == 0)
		}
	}
	counted.flush(m)
	counted.flush(m) // begins anew
	took := 0
	for i := range rounds * kinds {
		if outcomes[i%len(outcomes)] == "allowed" {
			took += 2
		}
	}
	for name, want := range map[string]int{"aliquot_decisions_total": rounds * kinds, "aliquot_offered_tokens_total": 2 * rounds * kinds, "aliquot_admitted_tokens_total": took} {
		if got := sumOf(t, d, name); got != float64(want) {
			t.Errorf("%s: %v, want %d", name, got, want)
		}
	}
	got := fmt.Sprint(before.allowed.Load(), before.denied.Load(), after.allowed.Load(), after.denied.Load())
	if want := fmt.Sprint(kinds, 0, (rounds-1)*kinds/2, (rounds-1)*kinds/2); got != want {
		t.Errorf("by version %s, want %s", got, want)
	}
}

// sumOf is a counter's sum over its labels.
func sumOf(t *testing.T, d *Daemon, name string) (sum float64) {
	t.Helper()
	all, err := d.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}
