package charge

import (
	"aliquot/budget"
	"aliquot/internal/prefetch"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/modes"
)

// Borrowing is the part of a charge that concerns this daemon's memory. Its zero value means that
// memory takes no part.
type Borrowing struct {
	Local *Entry // of the charge's key; nil if it has none
	// Chunk is what the call tells the store about this daemon's chunk, and wants of it. While
	// checkedOut is set, call identifies the store call to the chunk.
	Chunk      limit.ChunkView
	call       prefetch.Call
	checkedOut bool
	// prepared: the janitor has set Chunk already.
	prepared bool
	// Spent is how much of what the call borrowed memory has admitted meanwhile.
	Spent limit.Tokens
	// Left is the rest of the chunk after the call. The daemon can spend it without the store.
	Left limit.Tokens
	// admitted and denied are what memory decided and the state machine does not know yet.
	admitted, denied limit.Tokens
	// Elsewhere: Lent holds, and a check may wait for what other regions send.
	Elsewhere bool
}

// countCheck counts a check that goes to the store. It returns the entry of the key, or nil if the
// key is not frequent enough to have one.
func (t *Table) countCheck(a *Charge, r *Request, shadow bool, now budget.Instant) *Entry {
	var room [256]byte
	e := t.Admit(AppendName(room[:0], a.Key.Rule, a.Rule, r), a.Key, now)
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Evicted {
		return nil
	}
	if e.Rule != a.Rule {
		e.Shares = a.usesChunks()
	}
	if !e.sameRecordLocked(a) {
		e.Chunk.Drop() // the chunk is of a record that no check uses any more
	}
	e.Rule, e.Limit, e.rules, e.window, e.shadow = a.Rule, a.Limit, a.Rules, a.Window, shadow
	e.Chunk.CountCheck(a.Cost, now)
	return e
}

// sameRecordLocked reports whether the charge is for the record that the entry's chunk was taken
// from. The store has one record for each algorithm that a rule has had.
func (e *Entry) sameRecordLocked(a *Charge) bool { return e.Limit.Algorithm == a.Limit.Algorithm }

// mayBorrow reports whether the limit's rule and the region's right let a call borrow a chunk.
func (a *Charge) mayBorrow() bool {
	return a.usesChunks() && a.Right.Phase != budget.Limbo
}

// usesChunks reports whether chunks are of use for the limit: it neither counts nor queues.
func (a *Charge) usesChunks() bool { return !a.Limit.Algorithm.Counts() && !a.Rule.Queue }

// CheckoutAll is Checkout for all groups of a call.
func (t *Table) CheckoutAll(head *Header, groups []*Transaction, now budget.Instant) {
	for _, g := range groups {
		t.Checkout(head, g, now)
	}
}

// Checkout adds to the charges of a group what this daemon has borrowed of their keys. If all of the
// keys are busy, the call also borrows more. The caller sends the call right after it.
func (t *Table) Checkout(head *Header, g *Transaction, now budget.Instant) {
	lends := !g.Reserves
	for i := range g.Charges {
		a := &g.Charges[i]
		lends = lends && a.Local != nil && a.mayBorrow() && a.Local.Busy(now)
	}
	for i := range g.Charges {
		if a := &g.Charges[i]; a.Local != nil && !a.prepared {
			a.Local.checkout(t, head, a, lends, now)
		}
	}
}

// Busy reports whether the key is used often enough to borrow for it.
func (e *Entry) Busy(now budget.Instant) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.Chunk.Busy(now)
}

func (e *Entry) checkout(t *Table, head *Header, a *Charge, lends bool, now budget.Instant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Evicted || !e.sameRecordLocked(a) {
		a.Local, a.Chunk = nil, limit.ChunkView{}
		return
	}
	a.Chunk, a.call = e.Chunk.Checkout(a.Cost, e.terms(t, head, a, lends), now)
	a.checkedOut = true
	// A call that borrows nothing brings no tokens for which other checks could wait.
	e.Shares = e.Chunk.InTransit()
}

// terms returns what a call with this header may borrow. If all chunks were ended after the header
// was read, that is nothing.
func (e *Entry) terms(t *Table, head *Header, a *Charge, lends bool) prefetch.Terms {
	return prefetch.Terms{
		Algorithm: a.Limit.Algorithm, Lends: lends && head.Resets == t.Resets.Load(), Rho: head.Rho, Until: a.Right.Until,
	}
}

// Complete gives the results of a group's call to the entries of its keys, except those of limits that the
// store did not decide.
func (g *Transaction) Complete(t *Table, r *lua.Result, storeNow int64, received budget.Instant) {
	for i := range g.Charges {
		a := &g.Charges[i]
		if _, undecided := r.Undecided[i]; undecided || !a.checkedOut {
			continue
		}
		a.checkedOut = false
		a.Local.complete(t, a, r.Allowed, r.Limits[i], r.Clock(i, storeNow), received)
	}
}

func (e *Entry) complete(t *Table, a *Charge, allowed bool, out limit.Outcome, storeNow int64, received budget.Instant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Chunk.Complete(a.call.Spent(a.Spent), allowed, out, storeNow, received)
	e.Stalled = false
	e.finishLocked()
	e.floorCap, e.coldCap, e.lent = a.FloorCap, a.ColdCap, a.Lent
	if a.Elsewhere {
		// A check that was denied only because the share is elsewhere may wait for the share.
		e.Chunk.Forget()
	}
	if e.Chunk.Left() > 0 {
		t.activate(e)
	}
	a.Left = e.Chunk.Left()
	a.admitted, a.denied = e.Chunk.TakeCounts()
	t.LostChunks.Add(e.Chunk.TakeLost())
}

// Fail ends the checkouts of a call that failed or was never made. If the call is repeated, it does
// not carry these chunks again.
func Fail(groups []*Transaction) {
	endCheckouts(groups, func(a *Charge) {
		a.Chunk = voidView(a.Chunk)
		a.Local.Chunk.Fail(a.call)
		a.Local.stallLocked()
	})
}

// NotExecuted ends the checkouts of a call that the store answered without executing it.
func NotExecuted(groups []*Transaction) {
	endCheckouts(groups, func(a *Charge) {
		a.Local.Chunk.NotExecuted(a.call, a.Chunk)
		a.Chunk = limit.ChunkView{}
		a.Local.finishLocked()
	})
}

// endCheckouts calls end for each charge with a checkout, under its entry's lock.
func endCheckouts(groups []*Transaction, end func(*Charge)) {
	for _, g := range groups {
		for i := range g.Charges {
			a := &g.Charges[i]
			if !a.checkedOut {
				continue
			}
			a.checkedOut = false
			a.Local.mu.Lock()
			end(a)
			a.Local.mu.Unlock()
		}
	}
}

// PendingTokens returns a channel that is closed when no call in flight can bring tokens any more.
// It returns nil if that is so now.
func (e *Entry) PendingTokens() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.Chunk.InTransit() {
		return nil
	}
	return e.doneLocked()
}

// voidView returns the view of the same chunk with which the store counts none of its tokens.
func voidView(v limit.ChunkView) limit.ChunkView {
	if v.Was == 0 {
		return limit.ChunkView{}
	}
	return limit.ChunkView{Was: v.Was, Until: limit.Void}
}

// RetryCached decides again, from memory, a group that the store has denied: another call may have
// borrowed the tokens that it lacked. It returns false, and charges nothing, if they do not suffice.
// The clock is read after the group's entries are locked.
func (t *Table) RetryCached(g *Transaction, clock func() budget.Instant) bool {
	if g.ChunkOnly || g.Peek || len(g.Charges) > MaxCached {
		return false
	}
	var plan LocalPlan
	for i := range g.Charges {
		a := &g.Charges[i]
		if a.Local == nil {
			return false
		}
		plan.add(a.Local, a.Cost)
	}
	plan.Lock()
	defer plan.Unlock()
	now := clock()
	for i, e := range plan.Entries[:plan.N] {
		if e.Evicted || e.Rule != g.Charges[i].Rule || e.Chunk.Peek(plan.Costs[i], now) != prefetch.Holds {
			return false
		}
	}
	g.Allowed, g.Out = true, g.EmptyVerdicts()
	for i, e := range plan.Entries[:plan.N] {
		a := &g.Charges[i]
		e.Chunk.Spend(a.Cost, now)
		t.activate(e)
		found := e.Chunk.Outcome(now)
		g.Out[i] = a.Verdict(g, modes.Local, limit.Decide(a.Limit, found, a.Cost, true)).With(found)
	}
	return true
}

// observeCached adds the observations of what memory decided for the charge's key.
func (a *Charge) observeCached(tokens limit.Tokens, seen []Observation) []Observation {
	if a.Independent() || a.admitted == 0 && a.denied == 0 {
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

// BeginReturn ends one key's chunk and returns the view that gives it back, for a change of the
// key's share. The caller calls finish after the change.
func (t *Table) BeginReturn(a *Charge, now budget.Instant) (view limit.ChunkView, finish func()) {
	e := t.ByKey(a.Key)
	if e == nil {
		return limit.ChunkView{}, func() {}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Chunk.End()
	if !e.sameRecordLocked(a) {
		return limit.ChunkView{}, func() {}
	}
	view, call := e.Chunk.Checkout(0, prefetch.Terms{}, now)
	return view, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.Chunk.Fail(call)
		e.Chunk.End() // also what was borrowed under the share before
	}
}

// EndKey ends one key's chunk and memory, because the key has another share.
func (t *Table) EndKey(key budget.KeyID) {
	if e := t.ByKey(key); e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.Chunk.End()
	}
}

// Forget drops a key's memory of denials, because tokens were given back.
func (t *Table) Forget(key budget.KeyID) {
	if e := t.ByKey(key); e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.Chunk.Forget()
	}
}

// Left returns what is left of a key's chunk.
func (t *Table) Left(key budget.KeyID) limit.Tokens {
	e := t.ByKey(key)
	if e == nil {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.Chunk.Left()
}
