package charge

import (
	"aliquot/budget"
	"aliquot/internal/prefetch"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/modes"
)

// Borrowing is the part of an ask that concerns memory. Its zero value means that memory takes no
// part.
type Borrowing struct {
	Local *Entry // of the ask's key; nil if it has none
	// Asked is the call's report about this daemon's chunk. trip is the chunk's memory of the call,
	// valid while away is set.
	Asked limit.ChunkView
	trip  prefetch.Trip
	away  bool
	// worded: upkeep filled in asked before the call was made.
	worded bool
	// Left is the rest of the chunk after the call. It can be spent too.
	Left limit.Tokens
	// admitted and denied were decided here. The state machine has to learn of them.
	admitted, denied limit.Tokens
	// Elsewhere: another region has the share of the limit.
	Elsewhere bool
}

// seen counts a check that goes to the store. It returns the entry of the key, if the key has one
// or gets one.
func (t *Table) seen(a *Charge, r *Request, shadow bool, now budget.Instant) *Entry {
	var room [256]byte
	e := t.Admit(AppendName(room[:0], a.Key.Rule, a.Rule, r), a.Key, now)
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Gone {
		return nil
	}
	if e.Rule != a.Rule {
		e.Shares = a.lendable()
	}
	if !e.records(a) {
		e.Chunk.Drop() // the chunk is of a record that no check uses any more
	}
	e.Rule, e.Limit, e.window, e.shadow = a.Rule, a.Limit, a.Window, shadow
	e.Chunk.Seen(a.Cost, now)
	return e
}

// records reports whether the ask is about the record that the entry's chunk was taken from. The
// store has one record for each algorithm that a rule had. The caller holds mu.
func (e *Entry) records(a *Charge) bool { return e.Limit.Algorithm == a.Limit.Algorithm }

// borrows reports whether a call may ask for chunks of the limit, by its rule and the region's
// right.
func (a *Charge) borrows() bool {
	return a.lendable() && a.Right.Phase != budget.Limbo
}

// lendable reports whether chunks make sense for the limit.
func (a *Charge) lendable() bool { return !a.Limit.Algorithm.Counts() && !a.Rule.Queue }

// Bring adds to the asks of a group what this daemon has of their keys. If all of the keys are
// busy, it also asks for more. It is called right before the call leaves.
func (t *Table) Bring(head *Header, g *Transaction, now budget.Instant) {
	lends := !g.Reserves
	for i := range g.Asks {
		a := &g.Asks[i]
		lends = lends && a.Local != nil && a.borrows() && a.Local.Busy(now)
	}
	for i := range g.Asks {
		if a := &g.Asks[i]; a.Local != nil && !a.worded {
			a.Local.bring(t, head, a, lends, now)
		}
	}
}

// Busy reports whether the key is used often enough to borrow for it.
func (e *Entry) Busy(now budget.Instant) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.Chunk.Busy(now)
}

func (e *Entry) bring(t *Table, head *Header, a *Charge, lends bool, now budget.Instant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Gone || !e.records(a) {
		a.Local, a.Asked = nil, limit.ChunkView{}
		return
	}
	a.Asked, a.trip = e.Chunk.Bring(a.Cost, e.terms(t, head, a, lends), now)
	a.away = true
	// A call that asks for no tokens brings none for which other checks could wait.
	e.Shares = e.Chunk.Awaits()
}

// terms returns what a call with this header may ask for. If all chunks were ended after the header
// was read, the call must not borrow.
func (e *Entry) terms(t *Table, head *Header, a *Charge, lends bool) prefetch.Terms {
	return prefetch.Terms{
		Algorithm: a.Limit.Algorithm, Lends: lends && head.Turn == t.Turn.Load(), Rho: head.Rho, Until: a.Right.Until,
	}
}

// Took passes the results of a group's call to the entries of its keys.
func (g *Transaction) Took(t *Table, r *lua.Result, storeNow int64, received budget.Instant) {
	for i := range g.Asks {
		a := &g.Asks[i]
		if !a.away {
			continue
		}
		a.away = false
		a.Local.took(t, a, r.Allowed, r.Limits[i], r.Clock(i, storeNow), received)
	}
}

func (e *Entry) took(t *Table, a *Charge, allowed bool, out limit.Outcome, storeNow int64, received budget.Instant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Chunk.Took(a.trip, allowed, out, storeNow, received)
	e.Stalled = false
	e.land()
	e.floorCap, e.coldCap = a.FloorCap, a.ColdCap
	if a.Elsewhere {
		// A check that was denied only because the share is elsewhere may wait for the share.
		e.Chunk.Forget()
	}
	if e.Chunk.Left() > 0 {
		t.activate(e)
	}
	a.Left = e.Chunk.Left()
	a.admitted, a.denied = e.Chunk.Tell()
	t.Lost.Add(e.Chunk.TellLost())
}

// Lost ends what the groups of a call took along, if the call failed or was never made. If the call
// is repeated, it does not take that along again.
func Lost(groups []*Transaction) {
	landed(groups, func(a *Charge) {
		a.Asked = void(a.Asked)
		a.Local.Chunk.Lost(a.trip)
		a.Local.fail()
	})
}

// Unmade ends what the groups of a call took along, if the store did not make the call.
func Unmade(groups []*Transaction) {
	landed(groups, func(a *Charge) {
		a.Local.Chunk.Unmade(a.trip, a.Asked)
		a.Asked = limit.ChunkView{}
		a.Local.land()
	})
}

// landed calls end, under the entry's lock, for each ask whose call has something with it.
func landed(groups []*Transaction, end func(*Charge)) {
	for _, g := range groups {
		for i := range g.Asks {
			a := &g.Asks[i]
			if !a.away {
				continue
			}
			a.away = false
			a.Local.mu.Lock()
			end(a)
			a.Local.mu.Unlock()
		}
	}
}

// Awaited returns a channel that is closed when the tokens on their way here have arrived. It
// returns nil if none are.
func (e *Entry) Awaited() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.Chunk.Awaits() {
		return nil
	}
	return e.landing()
}

// void returns a view of a chunk of which nothing counts.
func void(v limit.ChunkView) limit.ChunkView {
	if v.Was == 0 {
		return limit.ChunkView{}
	}
	return limit.ChunkView{Was: v.Was, Until: limit.Void}
}

// Second decides a group that the store denied again, by what is here now: another call may have
// borrowed the tokens that this one lacked. It returns false if that is not enough. The clock is
// read when the group's limits are locked, as in decision.local.
func (t *Table) Second(g *Transaction, clock func() budget.Instant) bool {
	if g.Upkeep || g.Peek || len(g.Asks) > MostLocal {
		return false
	}
	var plan LocalPlan
	for i := range g.Asks {
		a := &g.Asks[i]
		if a.Local == nil {
			return false
		}
		plan.add(a.Local, a.Cost)
	}
	plan.Lock()
	defer plan.Unlock()
	now := clock()
	for i, e := range plan.Entries[:plan.N] {
		if e.Gone || e.Rule != g.Asks[i].Rule || e.Chunk.Look(plan.Costs[i], now) != prefetch.Holds {
			return false
		}
	}
	g.Allowed, g.Out = true, g.EmptyVerdicts()
	for i, e := range plan.Entries[:plan.N] {
		a := &g.Asks[i]
		e.Chunk.Spend(a.Cost, now)
		t.activate(e)
		found := e.Chunk.Outcome(now)
		g.Out[i] = a.Verdict(g, modes.Local, limit.Decide(a.Limit, found, a.Cost, true)).With(found)
	}
	return true
}

// used adds the observations of what was decided here about an ask's key.
func (a *Charge) used(tokens limit.Tokens, seen []Observation) []Observation {
	if a.Alone() || a.admitted == 0 && a.denied == 0 {
		return seen
	}
	u := budget.Usage{
		Rules: a.Rules, Limit: a.KeyLimit(), Tokens: int64(max(0, tokens)), FloorCap: int64(a.FloorCap), ColdCap: int64(a.ColdCap),
	}
	if a.admitted > 0 {
		u.Admitted, u.Cost = true, int64(a.admitted)
		seen = append(seen, Observation{Key: a.Key, Usage: u})
	}
	if a.denied > 0 {
		u.Admitted, u.Cost = false, int64(a.denied)
		seen = append(seen, Observation{Key: a.Key, Usage: u})
	}
	a.admitted, a.denied = 0, 0
	return seen
}

// Ended ends one key's chunk and returns the view that gives it back, for a change of the key's
// share. The caller calls the function after the change.
func (t *Table) Ended(a *Charge, now budget.Instant) (limit.ChunkView, func()) {
	e := t.OfKey(a.Key)
	if e == nil {
		return limit.ChunkView{}, func() {}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Chunk.End()
	if !e.records(a) {
		return limit.ChunkView{}, func() {}
	}
	view, trip := e.Chunk.Bring(0, prefetch.Terms{}, now)
	return view, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.Chunk.Lost(trip)
		e.Chunk.End() // also what was borrowed under the share before
	}
}

// EndKey ends one key's chunk and memory, because the key has another share.
func (t *Table) EndKey(key budget.KeyID) {
	if e := t.OfKey(key); e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.Chunk.End()
	}
}

// Forget drops a key's memory of denials, because tokens were given back.
func (t *Table) Forget(key budget.KeyID) {
	if e := t.OfKey(key); e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.Chunk.Forget()
	}
}

// Left returns what is left of a key's chunk.
func (t *Table) Left(key budget.KeyID) limit.Tokens {
	e := t.OfKey(key)
	if e == nil {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.Chunk.Left()
}
