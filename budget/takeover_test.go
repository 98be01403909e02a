package budget_test

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/sim/fleet"
)

// TestANewLeaderMovesNothingBeforeAllAreHeard: two of five regions say Hello a second after the
// others. Until then it seems as if room for their floors had to be made in every key. For a
// moment's silence that would be some changes a key, and as many back.
func TestANewLeaderMovesNothingBeforeAllAreHeard(t *testing.T) {
	f := fleet.New(fleet.Size{Regions: 5, Keys: 1000, Users: 2})
	f.Measure = func(_ string, step func()) { step() }
	f.Elect()
	if !f.Settle(time.Minute) {
		t.Fatal("the fleet does not settle")
	}
	changes := 0
	f.Planned = func(p budget.Plan) { changes += len(p.Changes) }
	f.Cut(3, true)
	f.Cut(4, true)
	f.Elect()
	f.Run(time.Second, 0)
	if changes > 0 || f.Live() != 3 {
		t.Errorf("%d changes are planned while %d of 5 regions are live", changes, f.Live())
	}
	f.Cut(3, false)
	f.Cut(4, false)
	f.Run(3*time.Second, 0)
	if changes > 1000 || f.Live() != 5 {
		t.Errorf("%d changes of 1,000 keys, with %d regions live", changes, f.Live())
	}
}

// TestANewLeaderWaitsForNobodyLonger: a region that stays away delays the others by at most half a
// lease.
func TestANewLeaderWaitsForNobodyLonger(t *testing.T) {
	f := fleet.New(fleet.Size{Regions: 5, Keys: 1000, Users: 2})
	f.Measure = func(_ string, step func()) { step() }
	f.Elect()
	if !f.Settle(time.Minute) {
		t.Fatal("the fleet does not settle")
	}
	changes := 0
	f.Planned = func(p budget.Plan) { changes += len(p.Changes) }
	f.Cut(4, true)
	f.Elect()
	f.Run(6*time.Second, 0)
	if changes < 1000 {
		t.Errorf("room is made for its floor in %d of 1,000 keys", changes)
	}
}
