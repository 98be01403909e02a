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
	e.Chunk.CountCheck(limit.Token, noon)
	e.Chunk.CountCheck(limit.Token, noon)
	return e
}

// TestChecksWaitForTheOneThatAsks: a busy key has one call in flight; the other checks wait for it,
// and go on when it is over, whatever its result.
func TestChecksWaitForTheOneThatAsks(t *testing.T) {
	e := busy()
	e.Shares = true
	groups := []*Transaction{{Charges: []Charge{{Borrowing: Borrowing{Local: e}}}}}
	var first, second Scratch
	var plan LocalPlan
	plan.add(e, limit.Token)
	if plan.JoinInFlight(&second, noon) {
		t.Error("it waits though nothing is in flight")
	}
	first.MarkInFlight(groups, noon)
	if second.MarkInFlight(groups, noon); len(first.inFlight) != 1 || len(second.inFlight) != 0 {
		t.Errorf("marked %d and %d times", len(first.inFlight), len(second.inFlight))
	}
	if !plan.JoinInFlight(&second, noon) {
		t.Fatal("it does not wait")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	waits := slices.Clone(second.waits)
	second.Until = time.Now().Add(time.Minute)
	if err := second.WaitInFlight(ended); !errors.Is(err, ErrGone) {
		t.Errorf("%v for a caller that has gone", err)
	}
	second.waits = waits
	first.ClearInFlight(false)
	if err := second.WaitInFlight(t.Context()); err != nil || plan.JoinInFlight(&second, noon) {
		t.Errorf("%v, or it waits after the call", err)
	}
	// No check waits for a call that brings nothing to others.
	e.Shares = false
	if first.MarkInFlight(groups, noon); len(first.inFlight) != 0 {
		t.Error("marked")
	}
}

// TestUseIsToldBeforeASecondTry: what was decided from memory reaches the machine also
// where the check that would have told it is put to the store again.
func TestUseIsToldBeforeASecondTry(t *testing.T) {
	e := busy()
	e.Chunk.Checkout(limit.Token, prefetch.Terms{Lends: true}, noon) // on its way
	g := &Transaction{Until: time.Now().Add(time.Hour), Charges: []Charge{{
		Planned:   Planned{Limit: limit.Limit{Capacity: 10 * limit.Token}, Rule: &rules.Rule{}, Cost: limit.Token},
		Borrowing: Borrowing{Local: e, Left: 2 * limit.Token, admitted: 7 * limit.Token, denied: 3 * limit.Token},
	}}}
	seen := g.ApplyResultOrRetry(NewTable(), lua.Result{Limits: make([]limit.Outcome, 1)}, func() budget.Instant { return noon }, nil)
	if g.InFlight == nil {
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
