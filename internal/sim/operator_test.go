package sim

import (
	"testing"
	"time"

	"aliquot/budget"
)

// operated is a calm world whose operator may change its regions: three, and one
// that is not declared yet, under a greedy client.
func operated(t *testing.T) *world {
	t.Helper()
	opts := calmly(of(300, 100), Behaviour{mode: greedy})
	opts.spare = 1
	return newWorld(1, opts, time.Hour)
}

// at is the world's time.
func (w *world) at() time.Duration { return duration(w.Now()) }

// steady lets time pass until the floors are what the weights amount to, and reports
// how long that took.
func (w *world) steady(t *testing.T, limit time.Duration) time.Duration {
	t.Helper()
	began := w.at()
	for !w.ledger.Config.Steady() {
		if w.at() > began+limit {
			t.Fatalf("not steady after %v: %+v", limit, w.ledger.Config.Regions)
		}
		w.pass(t, 100*time.Millisecond)
	}
	return w.at() - began
}

// ask runs an operator's command at once.
func (w *world) ask(t *testing.T, do func(*budget.Ledger) error) {
	t.Helper()
	var err error
	if !w.command("asked", func(l *budget.Ledger) error { err = do(l); return err }) {
		t.Fatal(err)
	}
}

// A region that is added gets its floor and its part of a busy key, one that is
// drained loses both, and one that is added again starts from nothing; nobody ever has more
// than the limit in between.
func TestCalmRegionsComeAndGo(t *testing.T) {
	w := operated(t)
	w.pass(t, 5*time.Second)
	w.addRegion()
	w.pass(t, 6*time.Second)
	t.Logf("added: steady after %v", w.steady(t, 30*time.Second))
	if d := w.ledger.Config.Regions[3]; d.Floor != w.ledger.Config.Targets()[3] || d.Floor.Rate < budget.Unit/4 {
		t.Errorf("the fourth region's floor is %v", d.Floor)
	}
	w.pass(t, 5*time.Second)
	key := w.Rules[0].Key
	if shares := w.ledger.Shares(key); len(shares) != 4 || shares[3].Rate == 0 {
		t.Errorf("shares %v", shares)
	}
	w.ask(t, func(l *budget.Ledger) error { return l.UpdateRegion("b", 3) })
	t.Logf("reweighted: steady after %v", w.steady(t, 30*time.Second))
	w.ask(t, func(l *budget.Ledger) error { return l.DrainRegion("a") })
	t.Logf("drained: steady after %v", w.steady(t, 30*time.Second))
	w.pass(t, 10*time.Second)
	w.checkDrained(0)
	w.ask(t, func(l *budget.Ledger) error { return l.AddRegion("a", 1) })
	t.Logf("added again: steady after %v", w.steady(t, 30*time.Second))
	w.pass(t, 3*time.Minute)
	if !w.ledger.Config.Settled() {
		t.Errorf("changes of floors still matter: %+v", w.ledger.Config.Regions)
	}
}

// A region whose daemon is dead keeps its floor until it is fenced; the others have
// all of it then.
func TestCalmFence(t *testing.T) {
	w := operated(t)
	w.pass(t, 5*time.Second)
	w.fence(1)
	w.pass(t, 6*time.Second)
	t.Logf("fenced: steady after %v", w.steady(t, 30*time.Second))
	w.pass(t, 10*time.Second)
	before := w.Rules[0].Ideal.Spent()
	w.pass(t, 30*time.Second)
	if got := int64(w.Rules[0].Ideal.Spent() - before); got < 100*million*30/100*98 {
		t.Errorf("%d of %d micro-tokens used without the fenced region", got, 100*million*30)
	}
}
