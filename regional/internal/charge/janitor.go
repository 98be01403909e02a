package charge

import (
	"time"

	"aliquot/budget"
	"aliquot/internal/prefetch"
)

const (
	// JanitorInterval is how often the janitor visits the chunks. An unused chunk goes back within
	// half its life, so a fifth of that is often enough.
	JanitorInterval = prefetch.Life / 10
	// ObserveInterval is how often the state machine learns what memory has decided.
	ObserveInterval = 20 * time.Millisecond
)

// Due visits the active entries. It appends to due those that need a call and, if observe is set, to
// seen the observations for the state machine. An entry with neither, and with no tokens left,
// becomes inactive. It has one caller at a time.
func (t *Table) Due(now budget.Instant, observe bool, due []*Entry, seen []Observation) ([]*Entry, []Observation) {
	t.activeMu.Lock()
	active := t.active
	t.active = nil
	t.activeMu.Unlock()
	kept := active[:0]
	for _, e := range active {
		e.mu.Lock()
		if observe {
			seen = e.observeLocked(now, seen)
		}
		if e.Chunk.Due(now) != prefetch.Nothing {
			due = append(due, e)
		}
		t.LostChunks.Add(e.Chunk.TakeLost())
		if e.active = e.Chunk.Active(); e.active {
			kept = append(kept, e)
		}
		e.mu.Unlock()
	}
	clear(active[len(kept):])
	t.activeMu.Lock()
	t.active = append(kept, t.active...) // before those that were added meanwhile
	t.activeMu.Unlock()
	return due, seen
}

// Urgent visits the entries that need a call now, and appends to due those that still do. It has one caller at a time.
func (t *Table) Urgent(now budget.Instant, due []*Entry) []*Entry {
	t.activeMu.Lock()
	urgent := t.urgent
	t.urgent = nil
	t.activeMu.Unlock()
	for _, e := range urgent {
		e.mu.Lock()
		if e.urgent = false; e.Chunk.Due(now) != prefetch.Nothing {
			due = append(due, e)
		}
		e.mu.Unlock()
	}
	return due
}

// ChunkTransaction returns a group that renews the entry's chunk or gives it back, once
// RenewOrReturn has prepared its charge.
func (e *Entry) ChunkTransaction() *Transaction {
	e.mu.Lock()
	defer e.mu.Unlock()
	g := NewTransaction(0)
	g.ChunkOnly, g.Charges = true, append(g.Charges, e.chargeLocked())
	return g
}

// MarkStalled wakes the checks that wait for calls of the janitor that failed or were given up. A
// call may still use the groups: it reads only their entries, which no call changes.
func MarkStalled(groups []*Transaction) {
	for _, g := range groups {
		e := g.Charges[0].Local
		e.mu.Lock()
		e.stallLocked()
		e.mu.Unlock()
	}
}

// chargeLocked returns a charge of nothing for the entry's key, for a call of the janitor.
func (e *Entry) chargeLocked() Charge {
	return Charge{
		Planned:  Planned{Rule: e.Rule, Rules: e.rules, Limit: e.Limit, Window: e.window, Enforcement: e.Rule.Enforcement, Key: e.Key},
		FloorCap: e.floorCap, ColdCap: e.coldCap, Borrowing: Borrowing{Local: e},
	}
}

// observeLocked appends to seen what memory has decided since the previous time.
func (e *Entry) observeLocked(now budget.Instant, seen []Observation) []Observation {
	admitted, denied := e.Chunk.TakeCounts()
	if admitted == 0 && denied == 0 {
		return seen
	}
	a := e.chargeLocked()
	a.admitted, a.denied = admitted, denied
	return a.observeCached(e.Chunk.Outcome(now).Tokens, seen)
}

// RenewOrReturn prepares the charge of a ChunkTransaction: it renews the chunk or returns it. It
// returns false if neither is necessary any more.
func (a *Charge) RenewOrReturn(t *Table, head *Header, now budget.Instant) bool {
	e := a.Local
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.sameRecordLocked(a) {
		return false
	}
	terms := e.terms(t, head, a, a.mayBorrow())
	switch e.Chunk.Due(now) {
	case prefetch.Renewal:
		a.Chunk, a.call = e.Chunk.Renew(terms, now)
	case prefetch.Return:
		terms.Lends = false
		a.Chunk, a.call = e.Chunk.Checkout(0, terms, now)
	default:
		return false
	}
	a.checkedOut, a.prepared = true, true
	return true
}
