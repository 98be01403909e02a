package regional

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"aliquot/budget"
	"aliquot/internal/recall"
	"aliquot/internal/rights"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/rules"
)

// emergency is the limit inside the process for the time the store does not answer: what the daemon
// remembers of the store's records, and what the region may spend by that. See package recall.
//
// Nothing is earned at a floor before it is known to be this region's: it may be lent, which only
// the store and the coordinators remember. Safe for concurrent use.
type emergency struct {
	now   func() budget.Instant
	clock *clockMap
	// owing counts the keys that owe something, so that checks pass them by while there are none.
	owing atomic.Int64

	mu    sync.Mutex
	table *recall.Table
	// contents are those of the store that the table remembers; empty: none yet.
	contents string
	// left: what the region may spend is not this daemon's. back is when it last came to be.
	left bool
	back budget.Instant
	// isBeside: another daemon of the region is known, which may spend by the store.
	isBeside bool
	// lapses is when left no longer holds for a daemon that is cut off, because nobody else was
	// heard when it was said; 0: never.
	lapses budget.Instant
}

func newEmergency(now func() budget.Instant, clock *clockMap) *emergency {
	return &emergency{now: now, clock: clock, table: recall.New(recall.DefaultKeys, now())}
}

// take decides one request under all its limits by what is remembered: none is charged unless all hold
// their costs, and denied is false. contents are those that the store had last.
func (e *emergency) take(asks []*ask, denied bool, contents string, out []limit.Outcome) bool {
	var room [1]recall.Charge // for what most requests have
	charges := append(room[:0], make([]recall.Charge, len(asks))...)
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	e.see(contents, now)
	for i, a := range asks {
		e.lapse(a.right.Phase, now)
		charges[i] = e.charge(a, now)
		charges[i].Full = a.timeToFull()
	}
	defer e.count()
	return e.table.Decide(charges, denied, now, out)
}

// holds reports whether take would admit a group.
func (e *emergency) holds(g *group, contents string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	e.see(contents, now)
	for i := range g.asks {
		c := e.charge(&g.asks[i], now)
		if !e.table.Holds(&c, now) {
			return false
		}
	}
	return true
}

// knows reports whether what is left of an ask's key is known, when take has denied it.
func (e *emergency) knows(a *ask) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	c := e.charge(a, now)
	return e.table.Tells(&c, now)
}

// sent charges the asks of a call that leaves now, and has the call carry what their keys owe.
func (e *emergency) sent(groups []*group, head *header) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	e.see(head.epoch, now)
	e.carry(groups, now)
	for _, g := range groups {
		for i := range g.asks {
			a := &g.asks[i]
			c := recall.Charge{Key: a.key, Limit: a.limit}
			if !e.table.Knows(a.key) {
				c = e.charge(a, now)
			}
			if c.Cost = a.cost; g.peek || g.upkeep {
				c.Cost = 0
			}
			a.memory = e.memory(a, now)
			e.table.Sent(&a.ticket, &c, now)
		}
	}
}

// carry has a call carry what keys owe, in the first ask of each. The caller holds mu.
func (e *emergency) carry(groups []*group, now budget.Instant) {
	if e.table.Owing() == 0 {
		for _, g := range groups {
			for i := range g.asks {
				g.asks[i].carried = recall.Debt{} // of an earlier try
			}
		}
		return
	}
	call := e.table.Call()
	for _, g := range groups {
		for i := range g.asks {
			a := &g.asks[i]
			a.carried = recall.Debt{}
			if e.table.Owes(a.key) {
				c := e.charge(a, now)
				a.carried = e.table.Carry(&c, call, now)
			}
		}
	}
	e.count()
}

// answered takes the store's answer to a group of a call. storeNow is its clock then.
func (e *emergency) answered(g *group, r *lua.Result, storeNow int64, received budget.Instant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range g.asks {
		a := &g.asks[i]
		c := recall.Charge{Key: a.key, Limit: a.limit}
		e.table.Answered(&a.ticket, &c, r.Allowed, r.Limits[i], a.carried, storeNow, received)
		if held, most, known := a.asked.Holds(&r.Limits[i]); known {
			e.table.Borrowed(a.key, held, received.Add(most), storeNow)
		}
	}
	e.count()
}

// failed ends calls of the store that brought no answer: by err it decided nothing, or may yet until latest.
func (e *emergency) failed(groups []*group, err error, latest budget.Instant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	nothing := decidedNothing(err)
	for _, g := range groups {
		for i := range g.asks {
			a := &g.asks[i]
			c := recall.Charge{Key: a.key, Limit: a.limit}
			e.table.Paid(a.key, a.carried, false)
			if a.carried = (recall.Debt{}); nothing {
				e.table.NotSent(&a.ticket, &c)
			} else {
				e.table.Lost(&a.ticket, &c, latest)
			}
		}
	}
	e.count()
}

// decidedNothing tells an error after which the store has charged nothing, and will not.
func decidedNothing(err error) bool {
	_, otherContents := errors.AsType[*lua.EpochError](err)
	_, late := errors.AsType[*lua.LateError](err)
	return otherContents || late || errors.Is(err, lua.ErrInvalid) || errors.Is(err, lua.ErrNoRoom) || isOpen(err) || errors.Is(err, errBusy)
}

// settling reports whether a call is under way that carries what a key of the group owes. Another one
// would take it off twice.
func (e *emergency) settling(g *group) bool {
	if e.owing.Load() == 0 || g.peek || g.upkeep {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range g.asks {
		if e.table.Settling(g.asks[i].key) {
			return true
		}
	}
	return false
}

// applying is for share changes, which leave now: they carry what their keys owe, and nobody knows what the keys
// hold until applied.
func (e *emergency) applying(changed *group, contents string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	e.see(contents, now)
	e.carry([]*group{changed}, now)
	for i := range changed.asks {
		changed.asks[i].memory = e.memory(&changed.asks[i], now)
		e.table.Forget(changed.asks[i].key, now)
	}
}

// applied takes what the store said of share changes; none if it did not.
func (e *emergency) applied(changed *group, shares []limit.Bucket, made []limit.Applied, storeNow int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	for i := range changed.asks {
		a := &changed.asks[i]
		is := made != nil && !made[i].Stale && !made[i].Late
		e.table.Paid(a.key, a.carried, is)
		switch {
		case !is:
		case a.limit.Algorithm.Counts():
			e.table.TellUse(a.key, made[i].Tokens, made[i].InUse, storeNow, now)
		default:
			e.table.Tell(a.key, made[i].Tokens, shares[i].Rate.Micro, storeNow, now)
		}
	}
	e.count()
}

// overran charges what was used beyond reservations that are settled now, and has the call carry what is owed.
func (e *emergency) overran(parts *group, used []limit.Tokens, contents string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	e.see(contents, now)
	e.carry([]*group{parts}, now)
	for i := range parts.asks {
		a := &parts.asks[i]
		e.table.Spend(a.key, max(0, used[i]-a.cost))
	}
}

// adjusted ends the call of overran.
func (e *emergency) adjusted(parts *group, made bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range parts.asks {
		e.table.Paid(parts.asks[i].key, parts.asks[i].carried, made)
	}
	e.count()
}

// revise is for other rules: what they allow counts from now on.
func (e *emergency) revise() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.table.Revise(e.now())
}

// see takes it that the store has other contents. The caller holds mu.
func (e *emergency) see(contents string, now budget.Instant) {
	if contents == e.contents || contents == "" {
		return
	}
	if e.contents != "" {
		e.table.Emptied(now)
	}
	e.contents = contents
}

// count notes how many keys owe something. The caller holds mu.
func (e *emergency) count() { e.owing.Store(int64(e.table.Owing())) }

// charge is what an ask costs its key, and what the region may hold of that. The caller holds mu.
func (e *emergency) charge(a *ask, now budget.Instant) recall.Charge {
	c := recall.Charge{
		Key: a.key, Limit: a.limit, Cost: a.cost, Bucket: e.bucketOf(a, now), Own: a.own,
		RhoPPM: e.clock.drift(),
	}
	known := false
	c.StoreNow, c.StoreLatest, known = e.clock.bounds(now)
	c.OldClock = !known
	if !a.alone() {
		c.From = max(rights.OwnSince(a.right), e.back)
	}
	if c.Own == nil {
		c.Own = &a.ticket
	}
	c.Room.Least, c.Room.Most = rights.Room(a.right, a.limit, a.enforcement == rules.Elastic)
	return c
}

// memory is what the store is to be told of an ask's key, should it have lost the record with other contents;
// nil: nothing. The caller holds mu.
func (e *emergency) memory(a *ask, now budget.Instant) *limit.Memory {
	if !e.table.Remembers() {
		return nil
	}
	c := e.charge(a, now)
	c.Full, c.Extra = a.timeToFull(), a.right.Hot && a.enforcement == rules.Elastic
	c.Foreign = e.left || e.isBeside || !a.alone() && a.right.Blind && a.right.Phase != budget.CutOff
	return e.table.Memory(&c, now)
}

// inSession notes that a coordinator has answered a report that was sent at an instant: for a while after that
// no other daemon gets the region's session.
func (e *emergency) inSession(sent budget.Instant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.table.HoldsUntil(sent.Add(budget.SessionHolds(e.clock.drift())))
}

// leaveFloor tells whether what the region may spend is another daemon's: a coordinator has
// said that one is heard, which may have lent what this one remembers, or was until lately.
// /readyz says so, and sends clients to that one. Nothing is kept beyond such a time.
func (e *emergency) leaveFloor(left bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left && !left {
		e.back = e.now()
	}
	e.left, e.lapses = left, 0
}

// beside tells whether another daemon of the region is known: it may have the store, and spends
// by that what this one would admit without it. Nothing is kept beyond such a time.
func (e *emergency) beside(another bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.isBeside && !another {
		e.back = e.now()
	}
	e.isBeside = another
}

// leaveFloorFor is leaveFloor(true) for as long as a coordinator says so, and so long after
// that for a daemon which hears nothing more: nobody else was heard, so it is like one that
// has never heard of another.
func (e *emergency) leaveFloorFor(wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.left, e.lapses = true, e.now().Add(wait)
}

// stillLeft is a coordinator's answer that it does not know whose the floor is: what was said
// before is no older by it.
func (e *emergency) stillLeft(wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lapses != 0 {
		e.lapses = e.now().Add(wait)
	}
}

// lapse has the floor back for a daemon that is cut off. The caller holds mu.
func (e *emergency) lapse(phase budget.Phase, now budget.Instant) {
	if e.lapses != 0 && phase == budget.CutOff && now >= e.lapses {
		e.left, e.lapses, e.back = false, 0, now
	}
}

// bucketOf is what the limit inside the process fills for an ask. A daemon that has
// had no session since its start goes by a floor that may be lent: its store has the record
// of that, and cannot be asked. Such a floor counts when everyone has made room for it. A
// right whose lease has ended since it was read is worth nothing: the next request reads
// another one. The caller holds mu.
func (e *emergency) bucketOf(a *ask, now budget.Instant) limit.Bucket {
	switch {
	case a.alone():
	case a.right.Until != 0 && now >= a.right.Until:
		return limit.Bucket{}
	case e.left, e.isBeside, a.right.Blind && a.right.Phase != budget.CutOff:
		return limit.Bucket{}
	case a.right.Blind && e.back != 0:
		// What others used of the floor, while another daemon had lent it, may count for as
		// long as the limit's window; half of it more is beyond any rho there may be.
		tail := a.keyLimit().Tail
		if now < e.back.Add(tail+tail/2) {
			return limit.Bucket{}
		}
	}
	return rights.WithoutStore(a.right, a.limit, a.enforcement == rules.Elastic, e.clock.drift())
}

// timeToFull is after how long the store's bucket is full whatever it is told.
func (a *ask) timeToFull() time.Duration {
	return rights.TimeToFull(a.right, a.limit, a.enforcement == rules.Elastic)
}
