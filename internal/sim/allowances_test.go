package sim

import (
	"os"
	"strings"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/sim/rule"
	"aliquot/limit"
)

// The oracle goes by what clients got, not by what the protocol has written down.
func TestTheOracleReadsNoLedgerAndNoRecord(t *testing.T) {
	for _, file := range []string{"admit.go", "allowances.go"} {
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
	if got := w.Rules[0].Ideal.Bursts(); got != 3 {
		t.Errorf("%d bursts of three regions", got)
	}
	w.propose("region drained", func(l *budget.Ledger) error { return l.DrainRegion("c") })
	w.pass(t, time.Minute)
	if got := w.Rules[0].Ideal.Bursts(); got != 4 {
		t.Errorf("%d bursts, of three regions of which one has left", got)
	}
	if l := of(300, 100); w.bursts(newStrict(w, l)) != 1 {
		t.Error("a strict limit has one")
	}
}

// A daemon that is down while a limit is lowered begins by the rules in its state file, and its store has
// earned by them. So the oracle allows the earlier limit until that daemon has heard of the new one.
func TestTheOracleAllowsForRulesInAStateFile(t *testing.T) {
	w := calm(t, of(60, 4), Behaviour{mode: single})
	w.pass(t, time.Second)
	n := w.NodeOf(1)
	w.Kill(n)
	r := w.Rules[0]
	w.changeRules("limit lowered", r, func(version uint64) { w.limitRule(r, version, of(60, 1), 0) })
	w.pass(t, 10*time.Second)
	if w.NodeOf(0).Version == 1 || w.oldestVersion() != 1 {
		t.Errorf("a daemon that runs has version %d, the oldest is %d", w.NodeOf(0).Version, w.oldestVersion())
	}
	w.StartNode(1, true, n.ID())
	w.pass(t, 10*time.Second)
	if w.oldestVersion() != w.version {
		t.Errorf("the oldest version is %d of %d, and every daemon has heard of it", w.oldestVersion(), w.version)
	}
}

func newStrict(w *world, l limit.Limit) *rule.Rule { return rule.New(&w.Timeline, 0, l, 0) }
