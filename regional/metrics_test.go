package regional

import (
	"strings"
	"testing"
)

// TestTokensAreCountedWhereTheyAreConsumed: what one rule denies consumes nothing of
// the other, a shadow rule counts by itself, and a cost that no limit could ever
// admit is not demand.
func TestTokensAreCountedWhereTheyAreConsumed(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, `defaults: {enforcement: strict}
rules:
  - id: r0
    params: {capacity: 100, refill_rate: 0.001}
  - id: r1
    params: {capacity: 9, refill_rate: 0.001}
  - id: r2
    shadow: true
    params: {capacity: 3, refill_rate: 0.001}
`).address()))
		for range 5 { // the region's floors are half of each
			check(t, d, "k")
		}
		text := scrape(t, d)
		for _, want := range []string{
			`aliquot_offered_tokens_total{region="us",rule="r0"} 5`, `aliquot_admitted_tokens_total{region="us",rule="r0"} 4`,
			`aliquot_offered_tokens_total{region="us",rule="r1"} 5`, `aliquot_admitted_tokens_total{region="us",rule="r1"} 4`,
			`aliquot_offered_tokens_total{region="us",rule="r2"} 5`, `aliquot_admitted_tokens_total{region="us",rule="r2"} 1`,
			`aliquot_decisions_total{mode="store",outcome="denied",region="us",rule="r1"} 1`,
			`aliquot_phase{phase="live",region="us"} 1`, `aliquot_phase{phase="limbo",region="us"} 0`, `aliquot_phase{phase="floor",region="us"} 0`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in\n%s", want, text)
			}
		}
	})
}
