package authority

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/prefetch"
	"aliquot/internal/storeclock"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/charge/chargetest"
	"aliquot/rules"
)

// TestShareEndsItsKeyAsItCounts: what the store said until the very moment in which the
// machine goes by a new share is of the one before.
func TestShareEndsItsKeyAsItCounts(t *testing.T) {
	now := func() budget.Instant { return chargetest.Noon }
	auth := New(budget.NewRegion(0, budget.Config{}, 1, chargetest.Noon), storeclock.New(), now)
	e := chargetest.Lent(t, auth.Local, &rules.Rule{ID: "r0", LocalCache: true})
	_, trip := e.Chunk.Checkout(limit.Token, prefetch.Terms{}, chargetest.Noon)
	e.Chunk.Complete(trip, false, limit.Outcome{}, 100_001, chargetest.Noon)
	if e.Chunk.Peek(limit.Token, chargetest.Noon) != prefetch.Denied {
		t.Fatal("nothing is remembered")
	}
	auth.Post(budget.SharesApplied{Results: []budget.ShareResult{{Key: budget.KeyID{Rule: 2}}}})
	if e.Chunk.Peek(limit.Token, chargetest.Noon) != prefetch.Denied {
		t.Error("another key's share has ended the memory")
	}
	auth.Post(budget.SharesApplied{Results: []budget.ShareResult{{Key: e.Key}}})
	if found := e.Chunk.Peek(limit.Token, chargetest.Noon); found != prefetch.Ask {
		t.Errorf("%v under a new share", found)
	}
}

// TestNewRulesEndIdleEntries: what was not asked for recently keeps no earlier version of
// the rules in memory.
func TestNewRulesEndIdleEntries(t *testing.T) {
	later := chargetest.Noon.Add(time.Second)
	now := func() budget.Instant { return later }
	auth := New(budget.NewRegion(0, budget.Config{}, 1, chargetest.Noon), storeclock.New(), now)
	idle, busy := chargetest.Arrive(auth.Local, 1, charge.AdmitAfter, chargetest.Noon), chargetest.Arrive(auth.Local, 2, charge.AdmitAfter, chargetest.Noon)
	chargetest.Use(idle, chargetest.Noon)
	chargetest.Use(busy, later)
	auth.Post(budget.RulesReplaced{})
	name, key := chargetest.KeyName(1)
	if e, _ := auth.Local.Find(name); e != nil || auth.Local.ByKey(key) != nil || !idle.Evicted {
		t.Error("an idle entry is kept")
	}
	if auth.Local.ByKey(busy.Key) != busy || busy.Evicted {
		t.Error("a busy entry is gone")
	}
	if e := chargetest.Arrive(auth.Local, 1, 1, later); e == nil || e == idle {
		t.Error("a key that comes again gets no entry")
	}
}
