package coordinator

import (
	"testing"
	"time"

	"aliquot/budget"
)

func always(budget.KeyID) bool { return true }
func kept(uint32) bool         { return true }

// usage is one region's report of one key of rule 1: capacity 100, rate 10/s.
func usage(region int, session uint64, admitted int64) budget.Report {
	return budget.Report{Region: region, Session: session, Keys: []budget.KeyReport{{
		Key: budget.KeyID{Rule: 1}, Gen: budget.Gen{Epoch: 1, Counter: 1},
		Admitted: admitted * microToken, Limit: budget.KeyLimit{Capacity: 100 * microToken, Rate: 10 * microToken},
	}}}
}

func TestTallyCountsDifferencesWithinASession(t *testing.T) {
	y := newTally(2, 0)
	for _, rep := range []budget.Report{usage(0, 7, 5), usage(0, 7, 8), usage(1, 9, 4), usage(0, 8, 2)} {
		y.fold(rep, 0, always)
	}
	got := y.rules[1].admitted
	if got[0] != 10 || got[1] != 4 {
		t.Errorf("admitted %v, want [10 4]: 5 and 3 of session 7, 2 of session 8", got)
	}
}

func TestTallySeesAnExcess(t *testing.T) {
	y := newTally(2, 0)
	y.fold(usage(0, 1, 100), 0, always)
	y.fold(usage(1, 2, 20), 0, always)
	if got := y.rules[1].excess; got != 0 {
		t.Errorf("excess %v; 20 tokens are what a late report explains", got)
	}
	y.fold(usage(1, 2, 50), 0, always)
	if got := y.rules[1].excess; got != 30 {
		t.Errorf("excess %v, want 150 admitted - 100 - 20 = 30", got)
	}
	y.fold(usage(1, 2, 51), budget.Instant(time.Minute), always)
	if got := y.rules[1].excess; got != 30 {
		t.Errorf("excess %v; the most ever seen should stay", got)
	}
}

func TestTallyUtilisationAndForgetting(t *testing.T) {
	y := newTally(1, 0)
	y.fold(usage(0, 1, 50), 0, always)
	y.tick(budget.Instant(9*time.Second), always, kept)
	if y.rules[1].utilisation != 0 {
		t.Error("the window is not over")
	}
	y.tick(budget.Instant(10*time.Second), always, kept)
	if got := y.rules[1].utilisation; got != 0.5 {
		t.Errorf("utilisation %v, want 50 of 10/s x 10 s", got)
	}
	none := func(budget.KeyID) bool { return false }
	y.tick(budget.Instant(20*time.Second), none, kept)
	if len(y.keys) != 0 || y.rules[1].utilisation != 0 {
		t.Errorf("%d keys left, utilisation %v", len(y.keys), y.rules[1].utilisation)
	}
	y.tick(budget.Instant(30*time.Second), none, func(uint32) bool { return false })
	if len(y.rules) != 0 {
		t.Error("a rule that is gone should be forgotten")
	}
}

func TestTallyIgnoresWhatTheLedgerDoesNotHave(t *testing.T) {
	y := newTally(1, 0)
	y.fold(usage(0, 1, 5), 0, func(budget.KeyID) bool { return false })
	cold := usage(0, 1, 5)
	cold.Keys[0].Gen = budget.Gen{}
	y.fold(cold, 0, always)
	if len(y.keys) != 0 {
		t.Errorf("%d keys, want none", len(y.keys))
	}
}
