package charge_test

import (
	"testing"

	"aliquot/budget"
	"aliquot/internal/prefetch"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/charge/chargetest"
	"aliquot/rules"
)

// TestChunkIsOfItsRecord: a rule that has become one that counts has another record, which
// knows nothing of what was borrowed: no call of it speaks of that.
func TestChunkIsOfItsRecord(t *testing.T) {
	before, since := &rules.Rule{ID: "r0", LocalCache: true}, &rules.Rule{ID: "r0", LocalCache: true}
	start := func() (*charge.Table, *charge.Entry, charge.Charge) {
		table := charge.NewTable()
		e := chargetest.Lent(t, table, before)
		return table, e, charge.Charge{Planned: charge.Planned{Rule: since, Limit: limit.Limit{Algorithm: limit.FixedWindow}, Key: e.Key, Cost: limit.Token}}
	}
	table, _, counts := start()
	if view, _ := table.BeginReturn(&counts, chargetest.Noon); view.Asked() {
		t.Errorf("a change of its share says %+v", view)
	}
	table, e, counts := start()
	table.End(false) // as new rules do
	bucket := e.ChunkTransaction().Charges[0]
	e.Rule, e.Limit = counts.Rule, counts.Limit
	if bucket.RenewOrReturn(table, &charge.Header{}, chargetest.Noon) {
		t.Errorf("its return says %+v", bucket.Chunk)
	}
	// An ask by the rules before, which has found the entry and then another came.
	if table.Checkout(&charge.Header{}, &charge.Transaction{Charges: []charge.Charge{bucket}}, chargetest.Noon); bucket.Chunk.Asked() {
		t.Errorf("a check by the rules before says %+v", bucket.Chunk)
	}
	table, e, counts = start()
	if counts.Local = table.Seen(&counts, &charge.Request{}, false, chargetest.Noon); counts.Local != e {
		t.Fatal("it is another entry")
	}
	g := &charge.Transaction{Charges: []charge.Charge{counts}}
	if table.Checkout(&charge.Header{}, g, chargetest.Noon); g.Charges[0].Chunk.Asked() || e.Chunk.Left() != 0 {
		t.Errorf("a check says %+v", g.Charges[0].Chunk)
	}
}

// TestNothingIsBorrowedByAHeaderFromBeforeTheEnd: the right in it was read before all chunks were ended, and may be of a
// share that holds no more.
func TestNothingIsBorrowedByAHeaderFromBeforeTheEnd(t *testing.T) {
	t.Parallel()
	for _, ended := range []bool{false, true} {
		table := charge.NewTable()
		e := chargetest.Arrive(table, 1, charge.AdmitAfter, chargetest.Noon)
		e.Rule, e.Limit = &rules.Rule{ID: "r0", LocalCache: true}, limit.Limit{Capacity: 100 * limit.Token}
		head := charge.Header{Resets: table.Resets.Load()}
		if ended {
			table.End(false)
		}
		chargetest.Use(e, chargetest.Noon)
		chargetest.Use(e, chargetest.Noon)
		g := &charge.Transaction{Charges: e.ChunkTransaction().Charges}
		g.Charges[0].Cost, g.Charges[0].Right.Phase = limit.Token, budget.Live
		if table.Checkout(&head, g, chargetest.Noon); (g.Charges[0].Chunk.Want == 0) != ended {
			t.Errorf("all chunks were ended since: %t; the call wants %v", ended, g.Charges[0].Chunk.Want)
		}
	}
}

// TestADeniedCheckIsNotDecidedByOtherRules: what is here was borrowed by the rules of a later check.
func TestADeniedCheckIsNotDecidedByOtherRules(t *testing.T) {
	t.Parallel()
	rule, other := &rules.Rule{ID: "r0", LocalCache: true}, &rules.Rule{ID: "r0", LocalCache: true}
	for _, by := range []*rules.Rule{rule, other} {
		table := charge.NewTable()
		e := chargetest.Lent(t, table, rule)
		g := &charge.Transaction{Charges: []charge.Charge{{Planned: charge.Planned{Rule: by, Limit: e.Limit, Key: e.Key, Cost: limit.Token}, Borrowing: charge.Borrowing{Local: e}}}}
		if table.RetryCached(g, func() budget.Instant { return chargetest.Noon }) != (by == rule) {
			t.Errorf("by the entry's own rules: %t; decided: %t", by == rule, g.Allowed)
		}
	}
}

// TestWhatWasBorrowedUnderAnotherShareEnds: a call that was under way with the change of the share may bring tokens of
// the share before.
func TestWhatWasBorrowedUnderAnotherShareEnds(t *testing.T) {
	t.Parallel()
	table := charge.NewTable()
	e := chargetest.Lent(t, table, &rules.Rule{ID: "r0", LocalCache: true})
	a := e.ChunkTransaction().Charges[0]
	_, made := table.BeginReturn(&a, chargetest.Noon)
	chargetest.Use(e, chargetest.Noon)
	chargetest.Use(e, chargetest.Noon)
	chargetest.Brings(table, chargetest.Asks(table, e, chargetest.Noon), chargetest.Noon)
	if made(); e.Chunk.Peek(limit.Token, chargetest.Noon) == prefetch.Holds {
		t.Error("a check is decided by what was borrowed before the share changed")
	}
}

// TestWhatMemoryDecidesIsToldWithItsRules: or the region would take the limit for one of other rules, which it does not
// tell the leader.
func TestWhatMemoryDecidesIsToldWithItsRules(t *testing.T) {
	t.Parallel()
	table := charge.NewTable()
	e := chargetest.Lent(t, table, &rules.Rule{ID: "r0", LocalCache: true})
	inForce := budget.RulesState{Version: 3, Ended: 1}
	check := charge.Charge{Planned: charge.Planned{Rule: e.Rule, Rules: inForce, Limit: e.Limit, Key: e.Key, Cost: limit.Token}}
	if table.Seen(&check, &charge.Request{}, false, chargetest.Noon) != e {
		t.Fatal("it is another entry")
	}
	e.WhileLocked(func() { e.Chunk.Spend(limit.Token, chargetest.Noon) })
	_, seen := table.Due(chargetest.Noon, true, nil, nil)
	if len(seen) != 1 || seen[0].Usage.Rules != inForce || !seen[0].Usage.Admitted {
		t.Errorf("told %+v, want one token by %+v", seen, inForce)
	}
}
