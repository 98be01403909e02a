package sim

import (
	"os"
	"strings"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/prefetch"
	"aliquot/limit"
)

// The oracle goes by what clients got, not by what the protocol has written down.
func TestTheOracleReadsNoLedgerAndNoRecord(t *testing.T) {
	for _, file := range []string{"oracle.go", "allowances.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, inside := range []string{"w.ledger", ".records", ".get(", ".Lent", "machine", "Steady"} {
			if strings.Contains(string(text), inside) {
				t.Errorf("%s reads %s", file, inside)
			}
		}
	}
}

// It counts the bursts of an elastic limit by the regions that were declared, and one more once
// floors have moved.
func TestTheOracleCountsBurstsByItself(t *testing.T) {
	w := calmElastic(t, of(300, 100), Behaviour{mode: single})
	w.pass(t, time.Second)
	if got := w.rules[0].ideal.bursts; got != 3 {
		t.Errorf("%d bursts of three regions", got)
	}
	w.propose("region drained", func(l *budget.Ledger) error { return l.DrainRegion("c") })
	w.pass(t, time.Minute)
	if got := w.rules[0].ideal.bursts; got != 4 {
		t.Errorf("%d bursts, of three regions of which one has left", got)
	}
	if l := of(300, 100); newStrict(w, l).bursts() != 1 {
		t.Error("a strict limit has one")
	}
}

func newStrict(w *world, l limit.Limit) *rule { return &rule{w: w, terms: []term{{limit: l}}} }

// What a store lent a moment ago may still be out; what it lent before is over.
func TestTheOracleCountsLoansByItself(t *testing.T) {
	b := newIdeal(of(100, 10), 0, 2, 1, 0)
	b.borrowed(0, 20*limit.Token, 0)
	b.borrowed(1, 30*limit.Token, 0)
	if got := b.outOf(0, int64(prefetch.Life)); got != 20*limit.Token {
		t.Errorf("%d are out", got)
	}
	b.borrowed(0, 90*limit.Token, int64(prefetch.Life))
	if got := b.outOf(0, int64(prefetch.Life)); got != 100*limit.Token {
		t.Errorf("%d are out of a bucket of 100", got)
	}
	if got := b.outOf(1, loanLasts+1); got != 0 {
		t.Errorf("%d are out after their time", got)
	}
}
