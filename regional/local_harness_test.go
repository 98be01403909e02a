package regional

import (
	"encoding/binary"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/prefetch"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/rules"
)

const noon = budget.Instant(12 * time.Hour)

// keyName is a name and key of a number.
func keyName(n uint64) ([]byte, budget.KeyID) {
	name := binary.BigEndian.AppendUint64(nil, n)
	k := budget.KeyID{Rule: 1}
	copy(k.Hash[:], name)
	return name, k
}

// come lets a key come so often.
func come(t *charge.Table, n uint64, times int, now budget.Instant) (e *charge.Entry) {
	name, key := keyName(n)
	for range times {
		e = t.Admit(name, key, now)
	}
	return e
}

// use makes an entry busy at an instant.
func use(e *charge.Entry, now budget.Instant) {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	e.Chunk.Seen(limit.Token, now)
}

// lent is an entry that has borrowed ten tokens of a rule's bucket.
func lent(t *testing.T, table *charge.Table, rule *rules.Rule) *charge.Entry {
	t.Helper()
	return lentTo(t, table, rule, &charge.Request{})
}

// lentTo is lent for the client of a request.
func lentTo(t *testing.T, table *charge.Table, rule *rules.Rule, r *charge.Request) *charge.Entry {
	t.Helper()
	key := budget.KeyID{Rule: 1}
	var e *charge.Entry
	for range charge.LocalWorth {
		e = table.Admit(charge.AppendName(nil, key.Rule, rule, r), key, noon)
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
