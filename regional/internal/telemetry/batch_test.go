package telemetry

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"aliquot/limit"
)

// TestBatch: nothing that a call decided is lost, or counted twice, also where it is of more
// kinds than a batch has rows, and under another version of the rules.
func TestBatch(t *testing.T) {
	const kinds, rounds = 3 * batchRows / 2, 5
	registry := prometheus.NewRegistry()
	m := New("us", "test", registry)
	m.UseRules([]string{"r0"}, nil)
	var before, after DecisionCounts
	var counted Batch
	for i := range rounds * kinds {
		what := outcomes[i%len(outcomes)]
		counted.CountDecision(m, "r0", what, modeLabels[i%kinds%len(modeLabels)]).AddCost(2*limit.Token, what == "allowed")
		if i < kinds {
			counted.CountRequest(&before, true)
		} else {
			counted.CountRequest(&after, i%2 == 0)
		}
	}
	counted.Flush(m)
	counted.Flush(m) // starts from zero
	took := 0
	for i := range rounds * kinds {
		if outcomes[i%len(outcomes)] == "allowed" {
			took += 2
		}
	}
	for name, want := range map[string]int{"aliquot_decisions_total": rounds * kinds, "aliquot_offered_tokens_total": 2 * rounds * kinds, "aliquot_admitted_tokens_total": took} {
		if got := sumOf(t, registry, name); got != float64(want) {
			t.Errorf("%s: %v, want %d", name, got, want)
		}
	}
	got := fmt.Sprint(before.Allowed.Load(), before.Denied.Load(), after.Allowed.Load(), after.Denied.Load())
	if want := fmt.Sprint(kinds, 0, (rounds-1)*kinds/2, (rounds-1)*kinds/2); got != want {
		t.Errorf("by version %s, want %s", got, want)
	}
}

// sumOf is a counter's sum over its labels.
func sumOf(t *testing.T, registry *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	all, err := registry.Gather()
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
