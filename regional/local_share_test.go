package regional

import (
	"testing"

	"aliquot/budget"
	"aliquot/internal/chunk"
	"aliquot/internal/storeclock"
	"aliquot/limit"
	"aliquot/rules"
)

// TestShareEndsItsKeyAsItCounts: what the store said until the very moment in which the
// machine goes by a new share is of the one before.
func TestShareEndsItsKeyAsItCounts(t *testing.T) {
	now := func() budget.Instant { return noon }
	auth := newAuthority(budget.NewRegion(0, budget.Config{}, 1, noon), storeclock.New(), now)
	e := lent(t, auth.local, &rules.Rule{ID: "r0", LocalCache: true})
	_, trip := e.chunk.Bring(limit.Token, chunk.Terms{}, noon)
	e.chunk.Took(trip, false, limit.Outcome{}, 100_001, noon)
	if e.chunk.Look(limit.Token, noon) != chunk.Denied {
		t.Fatal("nothing is remembered")
	}
	auth.post(budget.SharesApplied{Results: []budget.ShareResult{{Key: budget.KeyID{Rule: 2}}}})
	if e.chunk.Look(limit.Token, noon) != chunk.Denied {
		t.Error("another key's share has ended the memory")
	}
	auth.post(budget.SharesApplied{Results: []budget.ShareResult{{Key: e.key}}})
	if found := e.chunk.Look(limit.Token, noon); found != chunk.Ask {
		t.Errorf("%v under a new share", found)
	}
}
