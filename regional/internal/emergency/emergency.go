// Package emergency decides requests while the regional store does not answer.
package emergency

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/internal/recall"
	"aliquot/internal/roster"
	"aliquot/internal/storeclock"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/storeguard"
	"aliquot/rules"
)

// Limit is the limit inside the process for the time in which the store does not answer. It
// consists of what the daemon remembers of the store's records, and of what the region may spend by
// that. See package recall.
//
// Nothing is earned at a floor before it is known to be this region's. The floor may be lent, and
// only the store and the coordinators remember that. Safe for concurrent use.
type Limit struct {
	// Spread: the store is of several servers; see recall.Charge. It is set before first use.
	Spread bool

	now   func() budget.Instant
	clock *storeclock.Map
	// owing counts the keys that owe something. While it is 0, checks skip the search for them.
	owing atomic.Int64
	// returns: last waits for something.
	returns atomic.Bool

	mu    sync.Mutex
	table *recall.Table
	// turns are those of callers whose calls will carry what a key owes. free is closed when one ends, or a
	// call that carried a debt; nil: nobody waits for that.
	turns map[budget.KeyID]*Turn
	free  chan struct{}
	// contents is the epoch of the store contents that the table remembers; empty: none yet. born is
	// when they began, in microseconds of the store's clock; 0: not known.
	contents string
	born     int64
	// left: another daemon has what the region may spend.
	left bool
	since
	// isBeside: another daemon of the region is known, which may spend by the store. certainty: how sure it is
	// which ones may.
	isBeside  bool
	certainty roster.Certainty
	// stopped is when it was found that this machine's clock had stopped; 0: it has not, or a coordinator has answered a
	// later report.
	stopped budget.Instant
	// payments counts the answers that took something owed off the store's records. lostAt is how
	// many there were when the store was last found with other contents.
	payments, lostAt uint64
	// lapses is when left ends for a daemon that is cut off, because no other daemon was heard when
	// left was set; 0: never.
	lapses budget.Instant
	// last is what the last run of this daemon remembered.
	last recall.Return
	// kept is what Return took, and not yet decided about; sameClock: the daemon's clock has run on since.
	kept      *Kept
	sameClock bool
	// latest is as in New.
	latest func() string
	// asked has the keys of the latest call that left, for the table to warm. Each call uses its memory again.
	asked []budget.KeyID
}

// since has from when on what is earned is this daemon's own; 0: always.
type since struct {
	// back is when what regions share last came back to this daemon, alone when the last of the region's other daemons was
	// forgotten. Until then that one could spend by the store what is the region's alone, too.
	back, alone budget.Instant
}

// New returns a limit that remembers nothing yet, by the boot clock and the map of the store's clock. latest
// returns the epoch of the store's contents as last learned: a call or a decision may have read it before a
// change, and come here after one that knows the change. Nil: none does.
func New(now func() budget.Instant, clock *storeclock.Map, latest func() string) *Limit {
	return &Limit{now: now, clock: clock, latest: latest, table: recall.New(recall.DefaultKeys, now()), turns: map[budget.KeyID]*Turn{}}
}

// Take decides one request under all its limits by what is remembered. It charges none of them
// unless all hold their costs and denied is false. contents is the epoch of the store's latest
// contents. While this daemon must not spend, see HoldsBack, no limit has tokens.
func (e *Limit) Take(asks []*charge.Charge, denied bool, contents string, out []limit.Outcome) bool {
	var room [1]recall.Charge // room for the number that most requests have
	charges := append(room[:0], make([]recall.Charge, len(asks))...)
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	e.see(contents, now)
	for i, a := range asks {
		e.lapse(a.Right.Phase, now)
		charges[i] = e.charge(a, now)
		charges[i].Full = a.TimeToFull()
	}
	defer e.count()
	back := e.last.HoldsBack(e.contents)
	allowed := e.table.Decide(charges, denied || back, now, out)
	if back {
		for i := range out {
			out[i].Tokens = min(0, out[i].Tokens)
		}
	}
	return allowed
}

// Owes reports whether any key owes something.
func (e *Limit) Owes() bool { return e.owing.Load() != 0 }

// Knows reports whether the remaining tokens of an ask's key are known, after take has denied it.
func (e *Limit) Knows(a *charge.Charge) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	c := e.charge(a, now)
	return e.table.Tells(&c, now)
}

// Sent charges the asks of a call that leaves now, and adds to the call what their keys owe. What the call
// wants to borrow is set by then.
func (e *Limit) Sent(groups []*charge.Transaction, head *charge.Header) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	e.see(head.Epoch, now)
	e.carry(groups, now)
	e.warm(groups)
	var c recall.Charge // one for all of them, so that it need not be cleared for keys that are known
	for _, g := range groups {
		for i := range g.Charges {
			a := &g.Charges[i]
			if e.table.Knows(a.Key) {
				c.Key, c.Limit = a.Key, a.Limit
			} else {
				e.describe(&c, a, now)
			}
			if c.Cost = a.Cost; g.Peek || g.ChunkOnly {
				c.Cost = 0
			}
			c.Borrows = a.Chunk.Want > 0
			a.Memory = e.memory(a, now)
			e.tellHeld(a, now)
			e.table.Sent(&a.Ticket, &c, now)
		}
	}
}

// warm prepares the table for the keys of a call. The caller holds mu.
func (e *Limit) warm(groups []*charge.Transaction) {
	e.asked = e.asked[:0]
	for _, g := range groups {
		for i := range g.Charges {
			e.asked = append(e.asked, g.Charges[i].Key)
		}
	}
	e.table.Warm(e.asked)
}

// carry adds to a call what keys owe, in the first ask of each key. The caller holds mu.
func (e *Limit) carry(groups []*charge.Transaction, now budget.Instant) {
	if e.table.Owing() == 0 {
		for _, g := range groups {
			for i := range g.Charges {
				g.Charges[i].Carried = nil // of an earlier try
			}
		}
		return
	}
	call := e.table.Call()
	for _, g := range groups {
		for i := range g.Charges {
			a := &g.Charges[i]
			a.Carried = nil
			if e.table.Owes(a.Key) && !(g.Peek && e.table.Settling(a.Key)) { // a look at a key costs nothing, so it may leave the debt to another call
				c := e.charge(a, now)
				debt := e.table.Carry(&c, call, now)
				a.Carried = &debt
			}
		}
	}
	e.count()
}

// Answered takes the store's answers to the groups of a call. storeNow is the clock of the call. What was
// admitted here meanwhile comes out of what the store has lent. The limits that the store did not decide
// have failed; latest is as in Failed.
func (e *Limit) Answered(groups []*charge.Transaction, results []lua.Result, storeNow int64, received, latest budget.Instant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.table.WarmAnswers(tickets(groups))
	var c recall.Charge // as in Sent
	for i, g := range groups {
		e.answered(&c, g, &results[i], storeNow, received, latest)
	}
	e.count()
}

// tickets returns the tickets of a call's charges.
func tickets(groups []*charge.Transaction) iter.Seq[*recall.Ticket] {
	return func(yield func(*recall.Ticket) bool) {
		for _, g := range groups {
			for i := range g.Charges {
				if !yield(&g.Charges[i].Ticket) {
					return
				}
			}
		}
	}
}

// answered is Answered for one group. It uses the memory of c. The caller holds mu.
func (e *Limit) answered(c *recall.Charge, g *charge.Transaction, r *lua.Result, storeNow int64, received, latest budget.Instant) {
	for i := range g.Charges {
		a := &g.Charges[i]
		if err := r.Undecided[i]; err != nil {
			e.failed(a, err, latest)
			continue
		}
		e.name(c, a)
		if c.Cost = a.Cost; g.Peek || g.ChunkOnly {
			c.Cost = 0
		}
		decided := r.Clock(i, storeNow)
		e.table.Answered(&a.Ticket, c, r.Allowed, r.Limits[i], e.paid(a), decided, received)
		a.Spent = e.table.Borrowed(&a.Ticket, c, &a.Chunk, &r.Limits[i], decided, received)
	}
}

// Failed ends calls of the store that brought no answer. By err a call decided nothing, or it may
// still decide until latest.
func (e *Limit) Failed(groups []*charge.Transaction, err error, latest budget.Instant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, g := range groups {
		for i := range g.Charges {
			e.failed(&g.Charges[i], err, latest)
		}
	}
	e.count()
}

// failed is Failed for one charge. The caller holds mu.
func (e *Limit) failed(a *charge.Charge, err error, latest budget.Instant) {
	c := e.named(a)
	if e.table.Paid(a.Key, carried(a), false); storeguard.ChargedNothing(err) {
		e.table.NotSent(&a.Ticket, &c)
	} else {
		e.table.Lost(&a.Ticket, &c, latest)
	}
}

// Applying prepares share changes that leave now. They carry what their keys owe. What the keys
// hold is unknown until applied.
func (e *Limit) Applying(changed *charge.Transaction, contents string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	e.see(contents, now)
	e.carry([]*charge.Transaction{changed}, now)
	for i := range changed.Charges {
		changed.Charges[i].Memory = e.memory(&changed.Charges[i], now)
		e.table.Forget(changed.Charges[i].Key, now)
	}
}

// Applied takes the store's answer to share changes; made is nil if there was none.
func (e *Limit) Applied(changed *charge.Transaction, shares []limit.Bucket, made []limit.Applied) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	for i := range changed.Charges {
		a := &changed.Charges[i]
		is := made != nil && !made[i].Stale && !made[i].Late
		e.table.Paid(a.Key, e.paid(a), is)
		switch {
		case !is:
			e.table.Untold(a.Key, now)
		case a.Limit.Algorithm.Counts():
			c := e.named(a)
			e.table.TellUse(&c, made[i].Tokens, made[i].InUse, made[i].At, now)
		default:
			e.table.Tell(a.Key, made[i].Tokens, shares[i].Rate.Micro, made[i].At, now)
		}
	}
	e.count()
}

// Overran charges what was used beyond reservations that are being settled, and adds to the call
// what is owed. The call releases their slots.
func (e *Limit) Overran(parts *charge.Transaction, used []limit.Tokens, contents string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	e.see(contents, now)
	e.carry([]*charge.Transaction{parts}, now)
	for i := range parts.Charges {
		a := &parts.Charges[i]
		if a.Limit.Algorithm == limit.Concurrency {
			c := e.named(a)
			e.table.Releasing(&a.Ticket, &c, now)
			continue
		}
		if used[i] < a.Cost {
			e.table.Undate(a.Key)
		}
		c := e.charge(a, now)
		c.Cost, c.Overruns = max(0, used[i]-a.Cost), true
		e.table.Sent(&a.Ticket, &c, now)
	}
	e.count()
}

// Adjusted ends the call of Overran. adjusted is parallel to the asks. Without an error it is nil if the call made nothing;
// by err a call made nothing, or the store may still make it.
func (e *Limit) Adjusted(parts *charge.Transaction, adjusted []limit.Adjusted, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	nothing := len(adjusted) == 0 && (err == nil || storeguard.ChargedNothing(err))
	for i := range parts.Charges {
		a := &parts.Charges[i]
		c := e.named(a)
		switch {
		case nothing:
			e.table.Paid(a.Key, carried(a), false)
			e.table.NotSent(&a.Ticket, &c)
		case len(adjusted) > 0 && adjusted[i].At != 0:
			e.table.Adjusted(&a.Ticket, &c, adjusted[i].Tokens, adjusted[i].InUse, e.paid(a), adjusted[i].At, now)
		default: // a node of a cluster was not reached, or the call failed
			e.table.Paid(a.Key, e.paid(a), false)
			e.table.Lost(&a.Ticket, &c, now.Add(recall.LateAtMost))
		}
	}
	e.count()
}

// Release records that the holder of an ask's slot has given it back, which the store is told later. From
// now on another request may have the slot. Where another daemon of the region may have released it, a
// slot that was taken in the store counts until the store says that it is free.
func (e *Limit) Release(a *charge.Charge) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.named(a)
	e.table.Release(&c)
	e.count()
}

// named returns the charge that identifies an ask's key and slot to the table.
func (e *Limit) named(a *charge.Charge) (c recall.Charge) {
	e.name(&c, a)
	return c
}

// name is named in a charge that was used for others before. It leaves the fields as they are that named does not set.
func (e *Limit) name(c *recall.Charge, a *charge.Charge) {
	c.Key, c.Limit, c.Slot, c.Lasts, c.RhoPPM = a.Key, a.Limit, a.Slot, a.Lasts, 0
	if a.Limit.Algorithm == limit.Concurrency {
		c.RhoPPM = e.clock.Drift()
	}
}

// Learned records at once that the store's contents have been learned. The table must know whether this daemon had the
// session when they changed, not when the next check comes.
func (e *Limit) Learned() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.see(e.latest(), e.now())
}

// see records that the store has other contents. The caller holds mu.
func (e *Limit) see(contents string, now budget.Instant) {
	if contents != e.contents && e.latest != nil {
		contents = e.latest()
	}
	if contents == e.contents || contents == "" {
		return
	}
	if e.contents != "" {
		if k := e.kept; k != nil && k.Contents == e.contents && e.table.Len() > 0 {
			e.forgo() // what the last run remembered lacks what this one has spent of the same contents
		}
		if e.stopped != 0 {
			e.table.Void(now)
		} else {
			e.table.Emptied(now)
		}
		e.lostAt = e.payments
	}
	e.begin(contents)
}

// begin sets which contents of the store the table is of. The caller holds mu.
func (e *Limit) begin(contents string) {
	e.contents = contents
	e.born, _ = limit.EpochBirth(contents)
}

// count updates how many keys owe something, after each call. The caller holds mu.
func (e *Limit) count() {
	e.owing.Store(int64(e.table.Owing()))
	e.wake()
}

// charge returns what an ask costs its key, and what the region may hold of the key. The caller
// holds mu.
func (e *Limit) charge(a *charge.Charge, now budget.Instant) (c recall.Charge) {
	e.describe(&c, a, now)
	return c
}

// describe is charge in a charge that was used for others before. The caller holds mu.
func (e *Limit) describe(c *recall.Charge, a *charge.Charge, now budget.Instant) {
	*c = recall.Charge{}
	c.Key, c.Limit, c.Cost, c.Own, c.Slot, c.Lasts = a.Key, a.Limit, a.Cost, a.PriorTicket, a.Slot, a.Lasts
	c.Bucket, c.RhoPPM, c.Spread = e.bucketOf(a, now), e.clock.Drift(), e.Spread
	known := false
	c.StoreNow, c.StoreLatest, known = e.clock.Bounds(now)
	c.OldClock = !known
	if c.From = e.alone; !a.Independent() {
		c.From = max(entitlement.OwnSince(a.Right), e.back)
	}
	if c.Own == nil {
		c.Own = &a.Ticket
	}
	if a.Changed != nil {
		c.Former, c.Revised, c.SlowUntil = entitlement.FormerWithoutStore(a.Right, *a.Changed, a.Elastic(), e.clock.Drift())
	}
	c.Room.Least, c.Room.Most = entitlement.Room(a.Right, a.Limit, a.Enforcement == rules.Elastic)
}

// InSession records that a coordinator has answered a report sent at sent. For a while after that
// no other daemon gets the region's session.
func (e *Limit) InSession(sent budget.Instant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if sent < e.stopped {
		return // the clock may have stopped while the report or its answer was on its way
	}
	e.table.HoldsUntil(sent.Add(budget.SessionHolds(e.clock.Drift())))
	e.stopped = 0
}

// ClockStopped records that this machine's clock has stopped for a while. Another daemon may have had the session and spent
// in that time, whatever a coordinator answered before.
func (e *Limit) ClockStopped() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = e.now()
}

// LeaveFloor sets whether another daemon has what the region may spend. A coordinator has said that
// the other daemon is heard, or was until recently, and that daemon may have lent what this one
// remembers. /readyz reports it, and sends clients to that daemon. Nothing earned before the end of
// such a time is kept.
func (e *Limit) LeaveFloor(left bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left && !left {
		e.back = e.now()
	}
	if left {
		e.table.Disown()
	}
	e.left, e.lapses = left, 0
}

// HasLeft reports whether this daemon admits nothing because another daemon has what the region may
// spend.
func (e *Limit) HasLeft() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.left && (e.lapses == 0 || e.now() < e.lapses)
}

// Beside sets whether another daemon of the region is known, which may have the store, and spend by
// it what this one would admit without the store. Nothing earned before the end of such a time is
// kept. What was known of another daemon before stays as it is while this daemon is not certain.
func (e *Limit) Beside(another bool, certainty roster.Certainty) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.certainty = certainty; certainty != roster.Certain {
		return
	}
	if e.isBeside && !another {
		e.back = e.now()
		e.alone = e.back
	}
	if another {
		e.table.Disown()
	}
	e.isBeside = another
}

// isAlone reports whether no other daemon of the region can spend by the store. The caller holds mu.
func (e *Limit) isAlone(now budget.Instant) bool {
	return !e.isBeside && e.certainty.Suffices(e.hasSession(now))
}

// hasSession reports whether no other daemon can have had the region's session. The caller holds mu.
func (e *Limit) hasSession(now budget.Instant) bool { return e.stopped == 0 && e.table.InSession(now) }

// HasSession reports whether no other daemon can have had the region's session.
func (e *Limit) HasSession() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.hasSession(e.now())
}

// LeaveFloorFor sets that another daemon has what the region may spend, for as long as a
// coordinator says so. For a daemon that hears no coordinator any more it ends after wait: no other
// daemon was heard, so this one is like a daemon that has never heard of another.
func (e *Limit) LeaveFloorFor(wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.table.Disown()
	e.left, e.lapses = true, e.now().Add(wait)
}

// StillLeft takes a coordinator's answer that it does not know which daemon has the floor. It
// renews the time of an earlier leaveFloorFor.
func (e *Limit) StillLeft(wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lapses != 0 {
		e.lapses = e.now().Add(wait)
	}
}

// lapse takes the floor back for a daemon that is cut off, when its time has come. The caller holds
// mu.
func (e *Limit) lapse(phase budget.Phase, now budget.Instant) {
	if e.lapses != 0 && phase == budget.CutOff && now >= e.lapses {
		e.left, e.lapses, e.back = false, 0, now
	}
}

// bucketOf returns the bucket by which the limit inside the process admits an ask. A daemon without
// a session since its start uses a floor that may be lent: only its store has the record of that,
// and does not answer. Such a floor counts once all others have made room for it. A right whose
// lease has ended since it was read is worth nothing; the next request reads another right. The
// caller holds mu.
func (e *Limit) bucketOf(a *charge.Charge, now budget.Instant) limit.Bucket {
	switch {
	case !e.isAlone(now):
		return limit.Bucket{} // the other daemon may spend by the store what is this region's alone, too
	case a.Independent():
	case a.Right.Until != 0 && now >= a.Right.Until:
		return limit.Bucket{}
	case e.left, a.Right.Blind && a.Right.Phase != budget.CutOff:
		return limit.Bucket{}
	case a.Right.Blind && e.back != 0:
		// While another daemon had lent the floor, others used it, and that use may count for as
		// long as the limit's window. Half a window more exceeds any possible rho.
		tail := a.KeyLimit().Tail
		if now < e.back.Add(tail+tail/2) {
			return limit.Bucket{}
		}
	}
	return entitlement.WithoutStore(a.Right, a.Limit, a.Enforcement == rules.Elastic, e.clock.Drift())
}
