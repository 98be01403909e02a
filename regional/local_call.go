package regional

import (
	"aliquot/budget"
	"aliquot/internal/chunk"
	"aliquot/limit"
	"aliquot/lua"
)

// borrowing is what memory has to do with an ask; the zero value is nothing.
type borrowing struct {
	local *localEntry // of its key, nil if it has none
	// asked is what the call says of this daemon's chunk, and trip what the chunk has to
	// remember of the call, while away.
	asked limit.ChunkView
	trip  chunk.Trip
	away  bool
	// worded: asked was made before the call was, by upkeep.
	worded bool
	// left is what is left here after the call, which is there to be had too.
	left limit.Tokens
	// admitted and denied were decided here, and are to be told to the machine.
	admitted, denied limit.Tokens
	// elsewhere: the share of the limit is in another region.
	elsewhere bool
}

// seen counts a check that goes to the store, and returns the entry of its key, if it has
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
		e.chunk.Drop() // it is of a record that nobody asks for any more
	}
	e.rule, e.limit, e.window, e.shadow = a.rule, a.limit, a.window, shadow
	e.chunk.Seen(a.cost, now)
	return e
}

// records reports whether an ask is of the record that the entry's chunk is of: the store
// has one for each algorithm that a rule had. The caller holds mu.
func (e *localEntry) records(a *ask) bool { return e.limit.Algorithm == a.limit.Algorithm }

// borrows reports whether chunks may be asked for of a limit, by its rule and the
// region's right.
func (a *ask) borrows() bool {
	return a.lendable() && a.right.Phase != budget.Limbo
}

// lendable reports whether chunks of a limit make sense.
func (a *ask) lendable() bool { return !a.limit.Algorithm.Counts() && !a.rule.Queue }

// bring has a group's asks take along what this daemon has of their keys, and ask for
// more if all of them are busy. It comes right before the call leaves.
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
	// A call that asks for nothing brings the others nothing to wait for.
	e.shares = e.chunk.Awaits()
}

// terms are what a call made by a header may ask for. What has ended chunks since the
// header was read ends what would be taken by it.
func (e *localEntry) terms(t *localTable, head *header, a *ask, lends bool) chunk.Terms {
	return chunk.Terms{
		Algorithm: a.limit.Algorithm, Lends: lends && head.turn == t.turn.Load(), Rho: head.rho, Until: a.right.Until,
	}
}

// took gives the entries of a group what its call came to.
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
		// Whoever is denied only because the share is elsewhere may wait for it.
		e.chunk.Forget()
	}
	if e.chunk.Left() > 0 {
		t.activate(e)
	}
	a.left = e.chunk.Left()
	a.admitted, a.denied = e.chunk.Tell()
	t.lost.Add(e.chunk.TellLost())
}

// lost ends what the groups of a call took along that failed, or never left. Should the
// call be made once more, it does not speak of that again.
func lost(groups []*group) {
	landed(groups, func(a *ask) {
		a.asked = void(a.asked)
		a.local.chunk.Lost(a.trip)
		a.local.fail()
	})
}

// unmade ends what the groups of a call took along that the store has not made.
func unmade(groups []*group) {
	landed(groups, func(a *ask) {
		a.local.chunk.Unmade(a.trip, a.asked)
		a.asked = limit.ChunkView{}
		a.local.land()
	})
}

// landed ends, as end does it under the entry's lock, what the groups of a call took along.
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

// awaited is closed when what is on its way here has come; nil if nothing is.
func (e *localEntry) awaited() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.chunk.Awaits() {
		return nil
	}
	return e.landing()
}

// void is a view of a chunk that counts nothing of it.
func void(v limit.ChunkView) limit.ChunkView {
	if v.Was == 0 {
		return limit.ChunkView{}
	}
	return limit.ChunkView{Was: v.Was, Until: limit.Void}
}

// second decides a group that the store denied once more, by what is here: another call
// may have borrowed what this one found missing. It reports false if that does not do. The
// clock is read when the group's limits are locked, as in decision.local.
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
		g.out[i] = a.verdict(g, modeLocal, limit.Decide(a.limit, found, a.cost, true)).with(found)
	}
	return true
}

// used are the observations of what was decided here of an ask's key.
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

// ended ends one key's chunk, and words its return, for a change of the key's share.
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
		e.chunk.End() // what was borrowed under the share before
	}
}

// endKey ends one key's chunk and memory: its share is another one.
func (t *localTable) endKey(key budget.KeyID) {
	if e := t.ofKey(key); e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.chunk.End()
	}
}

// forget ends a key's memory of denials: something was given back.
func (t *localTable) forget(key budget.KeyID) {
	if e := t.ofKey(key); e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.chunk.Forget()
	}
}

// left is what is left of a key's chunk.
func (t *localTable) left(key budget.KeyID) limit.Tokens {
	e := t.ofKey(key)
	if e == nil {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.chunk.Left()
}

// asks for an entry, as upkeep words them.
func (e *localEntry) ask() ask {
	return ask{
		rule: e.rule, limit: e.limit, window: e.window, enforcement: e.rule.Enforcement, key: e.key,
		floorCap: e.floorCap, coldCap: e.coldCap, borrowing: borrowing{local: e},
	}
}
