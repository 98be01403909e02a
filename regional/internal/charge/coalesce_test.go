package charge

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/prefetch"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/rules"
)

const noon = budget.Instant(12 * time.Hour)

// busy returns an entry of a key that is busy at noon.
func busy() *Entry {
	e := &Entry{}
	e.Chunk.Seen(limit.Token, noon)
	e.Chunk.Seen(limit.Token, noon)
	return e
}

// TestChecksWaitForTheOneThatAsks: of a busy key one call is under way; the others are
// parked, and woken when it has landed, whatever came of it.
func TestChecksWaitForTheOneThatAsks(t *testing.T) {
	e := busy()
	e.Shares = true
	groups := []*Transaction{{Asks: []Charge{{Borrowing: Borrowing{Local: e}}}}}
	var first, second Scratch
	var plan LocalPlan
	plan.add(e, limit.Token)
	if plan.Parks(&second, noon) {
		t.Error("parked though nothing is under way")
	}
	first.Claim(groups, noon)
	if second.Claim(groups, noon); len(first.claimed) != 1 || len(second.claimed) != 0 {
		t.Errorf("claimed %d and %d times", len(first.claimed), len(second.claimed))
	}
	if !plan.Parks(&second, noon) {
		t.Fatal("not parked")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	awaits := slices.Clone(second.awaits)
	second.Until = time.Now().Add(time.Minute)
	if err := second.WaitParked(ended); !errors.Is(err, ErrGone) {
		t.Errorf("%v for a caller that has gone", err)
	}
	second.awaits = awaits
	first.Unclaim(false)
	if err := second.WaitParked(t.Context()); err != nil || plan.Parks(&second, noon) {
		t.Errorf("%v, parked after the call", err)
	}
	// A call that brings nothing to others has nobody wait.
	e.Shares = false
	if first.Claim(groups, noon); len(first.claimed) != 0 {
		t.Error("claimed")
	}
}

// TestUseIsToldBeforeASecondTry: what was decided from memory reaches the machine also
// where the check that would have told it is put to the store again.
func TestUseIsToldBeforeASecondTry(t *testing.T) {
	e := busy()
	e.Chunk.Bring(limit.Token, prefetch.Terms{Lends: true}, noon) // on its way
	g := &Transaction{Until: time.Now().Add(time.Hour), Asks: []Charge{{
		Limit: limit.Limit{Capacity: 10 * limit.Token}, Rule: &rules.Rule{}, Cost: limit.Token,
		Borrowing: Borrowing{Local: e, Left: 2 * limit.Token, admitted: 7 * limit.Token, denied: 3 * limit.Token},
	}}}
	seen := g.SettleHere(NewTable(), lua.Result{Limits: make([]limit.Outcome, 1)}, func() budget.Instant { return noon }, nil)
	if g.Awaits == nil {
		t.Fatal("it is not asked once more")
	}
	told := map[bool]int64{}
	for _, o := range seen {
		told[o.Usage.Admitted] += o.Usage.Cost
	}
	if told[true] != int64(7*limit.Token) || told[false] != int64(3*limit.Token) {
		t.Errorf("told %v", seen)
	}
}
