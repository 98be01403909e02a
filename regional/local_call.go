package regional

import (
	"aliquot/budget"
	"aliquot/internal/chunk"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/modes"
)

// borrowing is the part of an ask that concerns memory. Its zero value means that memory takes no
// part.
type borrowing struct {
	local *localEntry // of the ask's key; nil if it has none
	// asked is the call's report about this daemon's chunk. trip is the chunk's memory of the call,
	// valid while away is set.
	asked limit.ChunkView
	trip  chunk.Trip
	away  bool
	// worded: upkeep filled in asked before the call was made.
	worded bool
	// left is the rest of the chunk after the call. It can be spent too.
	left limit.Tokens
	// admitted and denied were decided here. The state machine has to learn of them.
	admitted, denied limit.Tokens
	// elsewhere: another region has the share of the limit.
	elsewhere bool
}

// seen counts a check that goes to the store. It returns the entry of the key, if the key has one
// or gets one.
func (t *localTable) seen(a *ask, r *request, shadow bool, now budget.Instant) *localEntry {
	var room [256]byte
	e := t.admit(appendName(room[:0], a.key.Rule, a.rule, r), a.key, now)
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone {
		return nil
	}
	if e.rule != a.rule {
		e.shares = a.lendable()
	}
	if !e.records(a) {
		e.chunk.Drop() // the chunk is of a record that no check uses any more
	}
	e.rule, e.limit, e.window, e.shadow = a.rule, a.limit, a.window, shadow
	e.chunk.Seen(a.cost, now)
	return e
}

// records reports whether the ask is about the record that the entry's chunk was taken from. The
// store has one record for each algorithm that a rule had. The caller holds mu.
func (e *localEntry) records(a *ask) bool { return e.limit.Algorithm == a.limit.Algorithm }

// borrows reports whether a call may ask for chunks of the limit, by its rule and the region's
// right.
func (a *ask) borrows() bool {
	return a.lendable() && a.right.Phase != budget.Limbo
}

// lendable reports whether chunks make sense for the limit.
func (a *ask) lendable() bool { return !a.limit.Algorithm.Counts() && !a.rule.Queue }

// bring adds to the asks of a group what this daemon has of their keys. If all of the keys are
// busy, it also asks for more. It is called right before the call leaves.
func (t *localTable) bring(head *header, g *group, now budget.Instant) {
	lends := !g.reserves
	for i := range g.asks {
		a := &g.asks[i]
		lends = lends && a.local != nil && a.borrows() && a.local.busy(now)
	}
	for i := range g.asks {
		if a := &g.asks[i]; a.local != nil && !a.worded {
			a.local.bring(t, head, a, lends, now)
		}
	}
}

func (e *localEntry) busy(now budget.Instant) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.chunk.Busy(now)
}

func (e *localEntry) bring(t *localTable, head *header, a *ask, lends bool, now budget.Instant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone || !e.records(a) {
		a.local, a.asked = nil, limit.ChunkView{}
		return
	}
	a.asked, a.trip = e.chunk.Bring(a.cost, e.terms(t, head, a, lends), now)
	a.away = true
	// A call that asks for no tokens brings none for which other checks could wait.
	e.shares = e.chunk.Awaits()
}

// terms returns what a call with this header may ask for. If all chunks were ended after the header
// was read, the call must not borrow.
func (e *localEntry) terms(t *localTable, head *header, a *ask, lends bool) chunk.Terms {
	return chunk.Terms{
		Algorithm: a.limit.Algorithm, Lends: lends && head.turn == t.turn.Load(), Rho: head.rho, Until: a.right.Until,
	}
}

// took passes the results of a group's call to the entries of its keys.
func (g *group) took(t *localTable, r *lua.Result, storeNow int64, received budget.Instant) {
	for i := range g.asks {
		a := &g.asks[i]
		if !a.away {
			continue
		}
		a.away = false
		a.local.took(t, a, r.Allowed, r.Limits[i], r.Clock(i, storeNow), received)
	}
}

func (e *localEntry) took(t *localTable, a *ask, allowed bool, out limit.Outcome, storeNow int64, received budget.Instant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.chunk.Took(a.trip, allowed, out, storeNow, received)
	e.stalled = false
	e.land()
	e.floorCap, e.coldCap = a.floorCap, a.coldCap
	if a.elsewhere {
		// A check that was denied only because the share is elsewhere may wait for the share.
		e.chunk.Forget()
	}
	if e.chunk.Left() > 0 {
		t.activate(e)
	}
	a.left = e.chunk.Left()
	a.admitted, a.denied = e.chunk.Tell()
	t.lost.Add(e.chunk.TellLost())
}

// lost ends what the groups of a call took along, if the call failed or was never made. If the call
// is repeated, it does not take that along again.
func lost(groups []*group) {
	landed(groups, func(a *ask) {
		a.asked = void(a.asked)
		a.local.chunk.Lost(a.trip)
		a.local.fail()
	})
}

// unmade ends what the groups of a call took along, if the store did not make the call.
func unmade(groups []*group) {
	landed(groups, func(a *ask) {
		a.local.chunk.Unmade(a.trip, a.asked)
		a.asked = limit.ChunkView{}
		a.local.land()
	})
}

// landed calls end, under the entry's lock, for each ask whose call has something with it.
func landed(groups []*group, end func(*ask)) {
	for _, g := range groups {
		for i := range g.asks {
			a := &g.asks[i]
			if !a.away {
				continue
			}
			a.away = false
			a.local.mu.Lock()
			end(a)
			a.local.mu.Unlock()
		}
	}
}

// awaited returns a channel that is closed when the tokens on their way here have arrived. It
// returns nil if none are.
func (e *localEntry) awaited() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.chunk.Awaits() {
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

// second decides a group that the store denied again, by what is here now: another call may have
// borrowed the tokens that this one lacked. It returns false if that is not enough. The clock is
// read when the group's limits are locked, as in decision.local.
func (t *localTable) second(g *group, clock func() budget.Instant) bool {
	if g.upkeep || g.peek || len(g.asks) > mostLocal {
		return false
	}
	var plan localPlan
	for i := range g.asks {
		a := &g.asks[i]
		if a.local == nil {
			return false
		}
		plan.add(a.local, a.cost)
	}
	plan.lock()
	defer plan.unlock()
	now := clock()
	for i, e := range plan.entries[:plan.n] {
		if e.gone || e.rule != g.asks[i].rule || e.chunk.Look(plan.costs[i], now) != chunk.Holds {
			return false
		}
	}
	g.allowed, g.out = true, g.verdicts()
	for i, e := range plan.entries[:plan.n] {
		a := &g.asks[i]
		e.chunk.Spend(a.cost, now)
		t.activate(e)
		found := e.chunk.Outcome(now)
		g.out[i] = a.verdict(g, modes.Local, limit.Decide(a.limit, found, a.cost, true)).with(found)
	}
	return true
}

// used adds the observations of what was decided here about an ask's key.
func (a *ask) used(tokens limit.Tokens, seen []observation) []observation {
	if a.alone() || a.admitted == 0 && a.denied == 0 {
		return seen
	}
	u := budget.Usage{
		Limit: a.keyLimit(), Tokens: int64(max(0, tokens)), FloorCap: int64(a.floorCap), ColdCap: int64(a.coldCap),
	}
	if a.admitted > 0 {
		u.Admitted, u.Cost = true, int64(a.admitted)
		seen = append(seen, observation{key: a.key, usage: u})
	}
	if a.denied > 0 {
		u.Admitted, u.Cost = false, int64(a.denied)
		seen = append(seen, observation{key: a.key, usage: u})
	}
	a.admitted, a.denied = 0, 0
	return seen
}

// ended ends one key's chunk and returns the view that gives it back, for a change of the key's
// share. The caller calls the function after the change.
func (t *localTable) ended(a *ask, now budget.Instant) (limit.ChunkView, func()) {
	e := t.ofKey(a.key)
	if e == nil {
		return limit.ChunkView{}, func() {}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.chunk.End()
	if !e.records(a) {
		return limit.ChunkView{}, func() {}
	}
	view, trip := e.chunk.Bring(0, chunk.Terms{}, now)
	return view, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.chunk.Lost(trip)
		e.chunk.End() // also what was borrowed under the share before
	}
}

// endKey ends one key's chunk and memory, because the key has another share.
func (t *localTable) endKey(key budget.KeyID) {
	if e := t.ofKey(key); e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.chunk.End()
	}
}

// forget drops a key's memory of denials, because tokens were given back.
func (t *localTable) forget(key budget.KeyID) {
	if e := t.ofKey(key); e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.chunk.Forget()
	}
}

// left returns what is left of a key's chunk.
func (t *localTable) left(key budget.KeyID) limit.Tokens {
	e := t.ofKey(key)
	if e == nil {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.chunk.Left()
}

// ask returns an ask for the entry's key, for a call of upkeep. The caller holds mu.
func (e *localEntry) ask() ask {
	return ask{
		rule: e.rule, limit: e.limit, window: e.window, enforcement: e.rule.Enforcement, key: e.key,
		floorCap: e.floorCap, coldCap: e.coldCap, borrowing: borrowing{local: e},
	}
}

// tell adds the observations of what was decided here since the previous time. The caller holds mu.
func (e *localEntry) tell(now budget.Instant, seen []observation) []observation {
	admitted, denied := e.chunk.Tell()
	if admitted == 0 && denied == 0 {
		return seen
	}
	a := e.ask()
	a.admitted, a.denied = admitted, denied
	return a.used(e.chunk.Outcome(now).Tokens, seen)
}

// keep fills in the renewal or the return of a chunk. It returns false if there is nothing to do
// any more.
func (a *ask) keep(t *localTable, head *header, now budget.Instant) bool {
	e := a.local
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.records(a) {
		return false
	}
	terms := e.terms(t, head, a, a.borrows())
	switch e.chunk.Due(now) {
	case chunk.Renewal:
		a.asked, a.trip = e.chunk.Renew(terms, now)
	case chunk.Return:
		terms.Lends = false
		a.asked, a.trip = e.chunk.Bring(0, terms, now)
	default:
		return false
	}
	a.away, a.worded = true, true
	return true
}
