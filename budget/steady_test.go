package budget_test

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/sim/fleet"
)

// looks returns how many times a key was planned.
func looks(f *fleet.Fleet) uint64 {
	stats, _ := f.Leader.Stats()
	return stats.Looks
}

// changes returns how many changes plans made in d.
func changes(f *fleet.Fleet, d time.Duration, churn int) int {
	n := 0
	f.Planned = func(p budget.Plan) { n += len(p.Changes) }
	f.Run(d, churn)
	return n
}

func settledFleet(t *testing.T, keys int) *fleet.Fleet {
	t.Helper()
	f := fleet.New(fleet.Size{Regions: 4, Keys: keys, Users: 2})
	f.Elect()
	if !f.Settle(time.Minute) {
		t.Fatal("the fleet does not settle")
	}
	changes(f, 30*time.Second, 0) // what is left of the beginning decays
	return f
}

// Usage that continues unchanged reaches the leader and is not planned.
func TestReportsWithoutNewsPlanNothing(t *testing.T) {
	f := settledFleet(t, 500)
	before, reports := looks(f), f.KeyReports
	if n := changes(f, 10*time.Second, 0); n > 500/10 {
		t.Errorf("%d changes in 10 s in which nothing changed", n)
	}
	if n := f.KeyReports - reports; n < 9*500*2 {
		t.Fatalf("%d reports of keys, want one a second of each of 1,000", n)
	}
	if n := looks(f) - before; n > 500/10 {
		t.Errorf("%d keys planned in 10 s in which nothing changed", n)
	}
}

// The same number of keys that move takes about the same number of plans, whether ten times
// as many others are hot or not.
func TestWorkFollowsTheChangedKeys(t *testing.T) {
	work := func(keys int) uint64 {
		f := settledFleet(t, keys)
		before := looks(f)
		f.Run(10*time.Second, 20)
		return looks(f) - before
	}
	few, many := work(300), work(3000)
	if many > few*3/2 {
		t.Errorf("%d keys planned with 300 hot keys, %d with 3,000", few, many)
	}
}

// A region that stops using a key without reporting it loses what it held of it, even if no other
// region reports anything new.
func TestSilenceAboutAKeyIsNews(t *testing.T) {
	f := settledFleet(t, 100)
	f.Leave(7)
	f.Run(30*time.Second, 0)
	s, _ := f.Leader.Key(fleet.Key(7))
	if got := s.Regions[f.Home(7)].Sent.Rate; got > budget.Unit/8 {
		t.Errorf("a region that has gone still holds %d of %d", got, budget.Unit)
	}
}
