// Package chargetest makes tables of keys for tests.
package chargetest

import (
	"encoding/binary"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/prefetch"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/charge"
	"aliquot/rules"
)

// Noon is the time at which Lent borrows.
const Noon = budget.Instant(12 * time.Hour)

// KeyName is a name and key of a number.
func KeyName(n uint64) ([]byte, budget.KeyID) {
	name := binary.BigEndian.AppendUint64(nil, n)
	k := budget.KeyID{Rule: 1}
	copy(k.Hash[:], name)
	return name, k
}

// Arrive counts a key as if it had come so often, and returns its entry, or nil if it has none.
func Arrive(t *charge.Table, n uint64, times int, now budget.Instant) (e *charge.Entry) {
	name, key := KeyName(n)
	for range times {
		e = t.Admit(name, key, now)
	}
	return e
}

// Use makes an entry busy at an instant.
func Use(e *charge.Entry, now budget.Instant) {
	e.WhileLocked(func() { e.Chunk.CountCheck(limit.Token, now) })
}

// Lent is an entry that has borrowed ten tokens of a rule's bucket.
func Lent(t testing.TB, table *charge.Table, rule *rules.Rule) *charge.Entry {
	t.Helper()
	return LentTo(t, table, rule, &charge.Request{})
}

// LentTo is Lent for the client of a request.
func LentTo(t testing.TB, table *charge.Table, rule *rules.Rule, r *charge.Request) *charge.Entry {
	t.Helper()
	key := budget.KeyID{Rule: 1}
	var e *charge.Entry
	for range charge.AdmitAfter {
		e = table.Admit(charge.AppendName(nil, key.Rule, rule, r), key, Noon)
	}
	e.Rule = rule
	Use(e, Noon)
	Use(e, Noon)
	Brings(table, Asks(table, e, Noon), Noon)
	if e.Chunk.Peek(limit.Token, Noon) != prefetch.Holds {
		t.Fatal("nothing was borrowed")
	}
	return e
}

// Asks returns a call for a token of an entry's key, which is under way from now on and may bring
// more.
func Asks(table *charge.Table, e *charge.Entry, now budget.Instant) *charge.Transaction {
	g := &charge.Transaction{Charges: []charge.Charge{{
		Planned: charge.Planned{Rule: e.Rule, Limit: e.Limit, Key: e.Key, Cost: limit.Token},
		Right:   budget.Right{Phase: budget.Live}, Borrowing: charge.Borrowing{Local: e},
	}}}
	table.Checkout(&charge.Header{Resets: table.Resets.Load()}, g, now)
	return g
}

// Brings answers a call at an instant: it is allowed, and brings ten tokens for 100 ms.
func Brings(table *charge.Table, g *charge.Transaction, now budget.Instant) {
	out := limit.Outcome{Lent: 10 * limit.Token, LentUntil: 200_000, LentFor: 100_000, Tokens: 10 * limit.Token}
	g.Complete(table, &lua.Result{Allowed: true, Limits: []limit.Outcome{out}}, 100_000, now)
}
