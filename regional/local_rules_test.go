package regional

import (
	"testing"

	"aliquot/budget"
	"aliquot/internal/chunk"
	"aliquot/limit"
	"aliquot/rules"
)

// lent is an entry that has borrowed ten tokens of a rule's bucket.
func lent(t *testing.T, table *localTable, rule *rules.Rule) *localEntry {
	t.Helper()
	return lentTo(t, table, rule, &request{})
}

// lentTo is lent for the client of a request.
func lentTo(t *testing.T, table *localTable, rule *rules.Rule, r *request) *localEntry {
	t.Helper()
	key := budget.KeyID{Rule: 1}
	var e *localEntry
	for range localWorth {
		e = table.admit(appendName(nil, key.Rule, rule, r), key, noon)
	}
	e.rule = rule
	use(e, noon)
	use(e, noon)
	_, trip := e.chunk.Bring(limit.Token, chunk.Terms{Lends: true}, noon)
	out := limit.Outcome{Lent: 10 * limit.Token, LentUntil: 200_000, LentFor: 100_000, Tokens: 10 * limit.Token}
	e.chunk.Took(trip, true, out, 100_000, noon)
	table.activate(e)
	if e.chunk.Look(limit.Token, noon) != chunk.Holds {
		t.Fatal("nothing was borrowed")
	}
	return e
}

// TestChunkIsOfItsRecord: a rule that has become one that counts has another record, which
// knows nothing of what was borrowed: no call of it speaks of that.
func TestChunkIsOfItsRecord(t *testing.T) {
	before, since := &rules.Rule{ID: "r0", LocalCache: true}, &rules.Rule{ID: "r0", LocalCache: true}
	start := func() (*localTable, *localEntry, ask) {
		table := newLocalTable()
		e := lent(t, table, before)
		return table, e, ask{rule: since, limit: limit.Limit{Algorithm: limit.FixedWindow}, key: e.key, cost: limit.Token}
	}
	table, _, counts := start()
	if view, _ := table.ended(&counts, noon); view.Asked() {
		t.Errorf("a change of its share says %+v", view)
	}
	table, e, counts := start()
	table.end(false) // as new rules do
	bucket := e.ask()
	e.rule, e.limit = counts.rule, counts.limit
	if bucket.keep(table, &header{}, noon) {
		t.Errorf("its return says %+v", bucket.asked)
	}
	// An ask by the rules before, which has found the entry and then another came.
	if table.bring(&header{}, &group{asks: []ask{bucket}}, noon); bucket.asked.Asked() {
		t.Errorf("a check by the rules before says %+v", bucket.asked)
	}
	table, e, counts = start()
	if counts.local = table.seen(&counts, &request{}, false, noon); counts.local != e {
		t.Fatal("it is another entry")
	}
	g := &group{asks: []ask{counts}}
	if table.bring(&header{}, g, noon); g.asks[0].asked.Asked() || e.chunk.Left() != 0 {
		t.Errorf("a check says %+v", g.asks[0].asked)
	}
}
