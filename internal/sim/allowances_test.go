package sim

import (
	"os"
	"strings"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/sim/rule"
	"aliquot/internal/sim/site"
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

// A daemon that owes its store slots lives on when the oracle forgives them, because another daemon of its region begins
// to spend. The store decides its next request, as it would have done without that.
func TestForgivenDebtsAreNotOnTheirWay(t *testing.T) {
	for _, forgiven := range []bool{false, true} {
		d := NewDriven(DriveOptions{
			Seed: 1, RTTs: []time.Duration{40 * time.Millisecond, 40 * time.Millisecond}, Quorum: 10 * time.Millisecond,
			Keys: []DrivenKey{{Limit: limit.Limit{Algorithm: limit.Concurrency, Capacity: 300 * limit.Token, Window: 20 * time.Second}}},
		})
		n, answers := d.w.NodeOf(0), 0
		ask := func() { d.Ask(0, 0, 1, limit.Token, func(site.Decided) { answers++ }) }
		d.After(5*time.Second, ask)
		d.After(6*time.Second, func() { d.Stop(0, 5*time.Second); ask() })
		d.After(7*time.Second, func() {
			if owed := n.Owes(d.w.Rules[0]); owed != limit.Token {
				t.Errorf("%d micro-tokens are owed, want a slot that was given out without the store", owed)
			}
			if forgiven {
				d.w.ForgiveDebts(n)
			}
		})
		d.After(15*time.Second, ask)
		if broken := d.Run(16 * time.Second); broken != nil {
			t.Fatal(broken)
		}
		if answers != 2 {
			t.Errorf("forgiven %v: the store has decided %d requests, want 2: one before it stopped and one after it", forgiven, answers)
		}
	}
}
