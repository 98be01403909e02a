package charge

import (
	"testing"

	"aliquot/budget"
	"aliquot/internal/prefetch"
	"aliquot/limit"
	"aliquot/rules"
)

// lent is an entry that has borrowed ten tokens of a rule's bucket.
func lent(t *testing.T, table *Table, rule *rules.Rule) *Entry {
	t.Helper()
	return lentTo(t, table, rule, &Request{})
}

// lentTo is lent for the client of a request.
func lentTo(t *testing.T, table *Table, rule *rules.Rule, r *Request) *Entry {
	t.Helper()
	key := budget.KeyID{Rule: 1}
	var e *Entry
	for range LocalWorth {
		e = table.Admit(AppendName(nil, key.Rule, rule, r), key, noon)
	}
	e.Rule = rule
	use(e, noon)
	use(e, noon)
	_, trip := e.Chunk.Bring(limit.Token, prefetch.Terms{Lends: true}, noon)
	out := limit.Outcome{Lent: 10 * limit.Token, LentUntil: 200_000, LentFor: 100_000, Tokens: 10 * limit.Token}
	e.Chunk.Took(trip, true, out, 100_000, noon)
	table.Activate(e)
	if e.Chunk.Look(limit.Token, noon) != prefetch.Holds {
		t.Fatal("nothing was borrowed")
	}
	return e
}

// TestChunkIsOfItsRecord: a rule that has become one that counts has another record, which
// knows nothing of what was borrowed: no call of it speaks of that.
func TestChunkIsOfItsRecord(t *testing.T) {
	before, since := &rules.Rule{ID: "r0", LocalCache: true}, &rules.Rule{ID: "r0", LocalCache: true}
	start := func() (*Table, *Entry, Charge) {
		table := NewTable()
		e := lent(t, table, before)
		return table, e, Charge{Rule: since, Limit: limit.Limit{Algorithm: limit.FixedWindow}, Key: e.Key, Cost: limit.Token}
	}
	table, _, counts := start()
	if view, _ := table.Ended(&counts, noon); view.Asked() {
		t.Errorf("a change of its share says %+v", view)
	}
	table, e, counts := start()
	table.End(false) // as new rules do
	bucket := e.Ask()
	e.Rule, e.Limit = counts.Rule, counts.Limit
	if bucket.Keep(table, &Header{}, noon) {
		t.Errorf("its return says %+v", bucket.Asked)
	}
	// An ask by the rules before, which has found the entry and then another came.
	if table.Bring(&Header{}, &Transaction{Asks: []Charge{bucket}}, noon); bucket.Asked.Asked() {
		t.Errorf("a check by the rules before says %+v", bucket.Asked)
	}
	table, e, counts = start()
	if counts.Local = table.seen(&counts, &Request{}, false, noon); counts.Local != e {
		t.Fatal("it is another entry")
	}
	g := &Transaction{Asks: []Charge{counts}}
	if table.Bring(&Header{}, g, noon); g.Asks[0].Asked.Asked() || e.Chunk.Left() != 0 {
		t.Errorf("a check says %+v", g.Asks[0].Asked)
	}
}

// TestNothingIsBorrowedByAHeaderFromBeforeTheEnd: the right in it was read before all chunks were ended, and may be of a
// share that holds no more.
func TestNothingIsBorrowedByAHeaderFromBeforeTheEnd(t *testing.T) {
	t.Parallel()
	for _, ended := range []bool{false, true} {
		table := NewTable()
		e := come(table, 1, LocalWorth, noon)
		e.Rule, e.Limit = &rules.Rule{ID: "r0", LocalCache: true}, limit.Limit{Capacity: 100 * limit.Token}
		head := Header{Turn: table.Turn.Load()}
		if ended {
			table.End(false)
		}
		use(e, noon)
		use(e, noon)
		g := &Transaction{Asks: []Charge{e.Ask()}}
		g.Asks[0].Cost, g.Asks[0].Right.Phase = limit.Token, budget.Live
		if table.Bring(&head, g, noon); (g.Asks[0].Asked.Want == 0) != ended {
			t.Errorf("all chunks were ended since: %t; the call wants %v", ended, g.Asks[0].Asked.Want)
		}
	}
}

// TestADeniedCheckIsNotDecidedByOtherRules: what is here was borrowed by the rules of a later check.
func TestADeniedCheckIsNotDecidedByOtherRules(t *testing.T) {
	t.Parallel()
	rule, other := &rules.Rule{ID: "r0", LocalCache: true}, &rules.Rule{ID: "r0", LocalCache: true}
	for _, by := range []*rules.Rule{rule, other} {
		table := NewTable()
		e := lent(t, table, rule)
		g := &Transaction{Asks: []Charge{{Rule: by, Limit: e.Limit, Key: e.Key, Cost: limit.Token, Borrowing: Borrowing{Local: e}}}}
		if table.Second(g, func() budget.Instant { return noon }) != (by == rule) {
			t.Errorf("by the entry's own rules: %t; decided: %t", by == rule, g.Allowed)
		}
	}
}

// TestWhatWasBorrowedUnderAnotherShareEnds: a call that was under way with the change of the share may bring tokens of
// the share before.
func TestWhatWasBorrowedUnderAnotherShareEnds(t *testing.T) {
	t.Parallel()
	table := NewTable()
	e := lent(t, table, &rules.Rule{ID: "r0", LocalCache: true})
	a := e.Ask()
	_, made := table.Ended(&a, noon)
	use(e, noon)
	use(e, noon)
	_, trip := e.Chunk.Bring(limit.Token, prefetch.Terms{Lends: true}, noon)
	e.Chunk.Took(trip, true, limit.Outcome{Lent: 10 * limit.Token, LentUntil: 300_000, LentFor: 100_000, Tokens: 10 * limit.Token}, 100_000, noon)
	if made(); e.Chunk.Look(limit.Token, noon) == prefetch.Holds {
		t.Error("a check is decided by what was borrowed before the share changed")
	}
}
