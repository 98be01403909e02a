package charge

import (
	"time"

	"aliquot/budget"
	"aliquot/internal/prefetch"
)

const (
	// UpkeepEvery is the interval at which upkeep visits what was borrowed. A chunk that is not
	// used goes back within half its life, so a tenth of that is soon enough.
	UpkeepEvery = prefetch.Life / 20
	// TellEvery is how long the state machine may wait for the use that was decided here.
	TellEvery = 20 * time.Millisecond
)

// Due visits the active entries. It adds to due those that need a call and, if tells is set, to seen
// the observations for the state machine. Entries with neither, and with nothing left, become
// inactive. It has one caller at a time.
func (t *Table) Due(now budget.Instant, tells bool, due []*Entry, seen []Observation) ([]*Entry, []Observation) {
	t.activeMu.Lock()
	active := t.active
	t.active = nil
	t.activeMu.Unlock()
	kept := active[:0]
	for _, e := range active {
		e.mu.Lock()
		if tells {
			seen = e.tellLocked(now, seen)
		}
		if e.Chunk.Due(now) != prefetch.Nothing {
			due = append(due, e)
		}
		t.Lost.Add(e.Chunk.TellLost())
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

// Upkeep returns a group that renews the entry's chunk or gives it back; see Keep.
func (e *Entry) Upkeep() *Transaction {
	e.mu.Lock()
	defer e.mu.Unlock()
	g := NewTransaction(0)
	g.Upkeep, g.Asks = true, append(g.Asks, e.askLocked())
	return g
}

// Stall wakes the checks that wait for calls of upkeep that failed or were given up. It reads which
// entries the groups have, which no call changes.
func Stall(groups []*Transaction) {
	for _, g := range groups {
		e := g.Asks[0].Local
		e.mu.Lock()
		e.fail()
		e.mu.Unlock()
	}
}

// askLocked returns an ask for the entry's key, for a call of upkeep.
func (e *Entry) askLocked() Charge {
	return Charge{
		Rule: e.Rule, Limit: e.Limit, Window: e.window, Enforcement: e.Rule.Enforcement, Key: e.Key,
		FloorCap: e.floorCap, ColdCap: e.coldCap, Borrowing: Borrowing{Local: e},
	}
}

// tellLocked adds the observations of what was decided here since the previous time.
func (e *Entry) tellLocked(now budget.Instant, seen []Observation) []Observation {
	admitted, denied := e.Chunk.Tell()
	if admitted == 0 && denied == 0 {
		return seen
	}
	a := e.askLocked()
	a.admitted, a.denied = admitted, denied
	return a.used(e.Chunk.Outcome(now).Tokens, seen)
}

// Keep fills in the renewal or the return of a chunk. It returns false if there is nothing to do
// any more.
func (a *Charge) Keep(t *Table, head *Header, now budget.Instant) bool {
	e := a.Local
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.records(a) {
		return false
	}
	terms := e.terms(t, head, a, a.borrows())
	switch e.Chunk.Due(now) {
	case prefetch.Renewal:
		a.Asked, a.trip = e.Chunk.Renew(terms, now)
	case prefetch.Return:
		terms.Lends = false
		a.Asked, a.trip = e.Chunk.Bring(0, terms, now)
	default:
		return false
	}
	a.away, a.worded = true, true
	return true
}
