package recall

import (
	"aliquot/budget"
	"aliquot/limit"
)

// Ticket is the charge for one limit of a call that was sent to the store. The zero value stands
// for a call that was not sent.
type Ticket struct {
	state  ticketState
	voided uint32 // Table.voided when the call was sent
	cost   limit.Tokens
	sent   budget.Instant
	// covered is what the caller was admitted for from memory while the call was in flight. It is
	// owed since then.
	covered limit.Tokens
	// mark is the debt's mark at that time, or that of the lost calls that this one is among.
	mark    uint64
	slot    uint64 // that its caller was given meanwhile
	borrows bool
	// overruns: as in Charge.
	overruns bool
	// unrecorded: the table had no room for the call's key. place: where it had the key.
	unrecorded bool
	place      int32
}

type ticketState uint8

const (
	unsent   ticketState = iota
	underway             // on its way to the store or back
	missing              // without an answer: the store may have charged it
	charged              // the store charged it
	refused              // the store did not charge it
)

// Call returns the number of the store's next call, for Carry.
func (t *Table) Call() uint64 {
	t.call++
	return t.call
}

// Debt is the part of a key's debt that a call carries. The zero value is nothing.
type Debt struct {
	// Amount is what the store must take off the key's record.
	Amount limit.Tokens
	// Held are the slots that the store must enter in the key's record.
	Held   []limit.HeldSlot
	open   []uint64     // those of Held that the store may still release by itself
	upTo   limit.Tokens // of everything that was ever owed
	voided uint32       // Table.voided when the call was sent
}

// Carry returns the debt of a charge's key for a call to carry. It returns nothing if that call
// carries it already.
func (t *Table) Carry(c *Charge, call uint64, now budget.Instant) Debt {
	key := c.Key
	d := t.debt[key]
	if d == nil || d.carrier == call {
		return Debt{}
	}
	if now > d.full {
		d.paid = d.total
		t.settle(key, d)
	}
	if c.Limit.Algorithm == limit.Concurrency {
		return t.carrySlots(d, c, call, now)
	}
	if d.use != nil && !c.OldClock {
		// Admissions in windows that are over no longer count.
		d.use.rewindow(c)
		d.use.date(c)
		d.use.forget(c)
		_, here := d.use.most(c)
		d.paid = max(d.paid, d.total-here)
	}
	if d.total == d.paid {
		return Debt{}
	}
	d.carrier, d.carried, d.mark = call, d.carried+1, t.nextMark()
	t.carriedBeside(key)
	return Debt{Amount: min(d.total-d.paid, t.missing(c, now), limit.MaxExact), upTo: d.total, voided: t.voided}
}

// missing returns the most that the store's bucket may hold above what is left. A bucket that was
// full all the time has earned nothing meanwhile, and would have earned again what was spent of it.
// That amount is no longer owed.
func (t *Table) missing(c *Charge, now budget.Instant) limit.Tokens {
	others := *c
	others.Own = nil
	e := t.find(&others, now)
	if e.capacity == 0 || c.Room.Most == 0 || c.Limit.Algorithm.Counts() {
		return limit.MaxExact
	}
	extra := max(0, e.capacity-c.Room.Least)
	return max(0, c.Room.Most+extra-max(0, e.left-t.pending(&others, &e)))
}

// Settling reports whether a call that carries a key's debt is in flight. Another call would have
// to carry the debt as well, or could spend before it is paid. So a request that comes meanwhile is
// better decided from memory.
func (t *Table) Settling(key budget.KeyID) bool {
	d := t.debt[key]
	return d != nil && d.carried > 0
}

// Paid ends a call that carried a debt. If taken, it subtracts what the store took, unless it took that
// from contents that are lost.
func (t *Table) Paid(key budget.KeyID, carried Debt, taken bool) {
	d := t.debt[key]
	if d == nil || carried.upTo == 0 && carried.Held == nil {
		return
	}
	d.carried = max(0, d.carried-1)
	if taken && carried.voided == t.voided {
		d.paid = max(d.paid, carried.upTo)
		d.entered(carried.Held, carried.open)
	}
	t.settle(key, d)
}

// Sent charges a cost for a call that is being sent.
func (t *Table) Sent(k *Ticket, c *Charge, now budget.Instant) {
	*k = Ticket{state: underway, cost: c.Cost, sent: now, voided: t.voided, borrows: c.Borrows, overruns: c.Overruns}
	t.asksToBorrow(k, c.Key)
	t.fold(c, now) // before this call may be lost, too
	e := t.keys.find(c.Key)
	if e == nil {
		if !t.makeRoom(now) {
			k.unrecorded = true
			t.unrecorded++
			return
		}
		e = t.keys.put(c.Key, t.untouched(c, now))
	}
	k.place = t.keys.place()
	e.asked += c.Cost
	e.overruns += k.overrun()
}

// overrun is what a call may take beyond what there is.
func (k *Ticket) overrun() limit.Tokens {
	if k.overruns {
		return k.cost
	}
	return 0
}

// Answered records the store's answer to a call: whether it charged the cost, and what is left.
// stamp is the store's clock at the answer. An answer that was overtaken by one with a later stamp
// says nothing new, unless that clock was set back. carried is the debt that the call carried.
func (t *Table) Answered(k *Ticket, c *Charge, allowed bool, out limit.Outcome, carried Debt, stamp int64, now budget.Instant) {
	t.landed(k, c)
	if allowed {
		t.uncover(k, c)
	}
	t.Paid(c.Key, carried, true)
	e := t.keys.find(c.Key)
	if e != nil && k.voided == t.voided && (stamp >= e.stamp || k.sent >= e.at) {
		t.decidedSince(c.Key, k.sent)
		left := out.Tokens
		if !c.Limit.Algorithm.Counts() {
			left -= t.Owed(c.Key, now)
		}
		// Requests that one call decides have one stamp. The last of them left the least.
		if !e.told || stamp != e.stamp || left <= e.left {
			t.learn(c, e, left, out, stamp, now)
			delete(t.taken, c.Key)
		}
	}
	t.date(k, c, e, allowed, carried, stamp)
	if allowed && c.Limit.Algorithm == limit.Concurrency && k.voided == t.voided {
		t.took(c, stamp)
	}
	if d := t.debt[c.Key]; d != nil {
		d.decided(k.sent)
		t.settle(c.Key, d)
	}
	if k.state = refused; allowed {
		k.state = charged
	}
}

// Adjusted records the store's answer to a call that settled a charge, or released a slot: what is left and in use, at
// stamp of its clock. For a bucket it is an answer like any other. If another answer about a counting limit came
// meanwhile, it is not known which of the two was first: then that one holds, and what this call charged and carried
// counts once more, because it may not count in that one.
func (t *Table) Adjusted(k *Ticket, c *Charge, left, used limit.Tokens, carried Debt, stamp int64, now budget.Instant) {
	e, known := t.keys.get(c.Key)
	if !c.Limit.Algorithm.Counts() {
		same := limit.Bucket{Cap: e.capacity, Rate: limit.Rate{Micro: e.basis}}
		t.Answered(k, c, true, limit.Outcome{Tokens: left, Bucket: same}, carried, stamp, now)
		return
	}
	latest := known && k.voided == t.voided && k.sent > e.at && stamp >= e.stamp && e.told
	if t.Paid(c.Key, carried, latest); !latest {
		t.Lost(k, c, now)
		return
	}
	t.landed(k, c)
	t.decidedSince(c.Key, k.sent)
	k.state = charged
	e, _ = t.keys.get(c.Key)
	t.learnUse(c, &e, left, used, stamp, now)
	t.recount(c, &e, now)
	t.keys.put(c.Key, e)
	if d := t.debt[c.Key]; d != nil {
		d.decided(k.sent)
		t.settle(c.Key, d)
	}
}

// date records when the store charged a call's cost and what it carried. A time beyond that of the
// latest answer is by another clock.
func (t *Table) date(k *Ticket, c *Charge, e *entry, allowed bool, carried Debt, stamp int64) {
	if e == nil || !e.counts || k.voided != t.voided {
		return
	}
	if allowed {
		e.recent.add(c.Cost, stamp, e.stamp)
	}
	e.recent.add(carried.Amount, stamp, e.stamp)
}

// learn records the store's answer about a key, at its clock's stamp. left is the answer less what
// is owed.
func (t *Table) learn(c *Charge, e *entry, left limit.Tokens, out limit.Outcome, stamp int64, now budget.Instant) {
	if !c.Limit.Algorithm.Counts() {
		t.unfold(c.Key)
		e.left, e.at, e.stamp, e.told = left, now, stamp, true
		e.basis, e.capacity = out.Bucket.Rate.Micro, out.Bucket.Cap
		return
	}
	t.learnUse(c, e, left, out.InUse(), stamp, now)
	t.recount(c, e, now)
}

// learnUse records what the store says of a counting limit: what is left of its rights, and what is in use.
func (t *Table) learnUse(c *Charge, e *entry, left, used limit.Tokens, stamp int64, now budget.Instant) {
	e.recent.roll(&c.Limit, e.stamp, stamp)
	e.left, e.at, e.basis, e.stamp = left, now, int64(min(used, limit.MaxTokens)), stamp
	e.told, e.counts = true, true
	if e.unknown() {
		e.left = -limit.MaxTokens // so there are no rights, whatever the store says to be left
	}
	e.reported(c, now)
	t.disownEnded(c.Key, stamp)
}

// recount records what the store reports as in use of a counting limit, besides what was admitted
// here and not reported to it.
func (t *Table) recount(c *Charge, e *entry, now budget.Instant) {
	t.unfold(c.Key)
	d := t.debt[c.Key]
	if d == nil || d.use == nil {
		return
	}
	rest := d.total - d.paid
	if rest == 0 {
		d.use = nil
		t.settle(c.Key, d)
		return
	}
	d.use.rewindow(c)
	d.use.unpaid(rest)
	t.countReported(d.use, c, e, now)
}

// NotSent takes back a charge: the store has not decided the call, and never will.
func (t *Table) NotSent(k *Ticket, c *Charge) {
	if k.state != underway {
		return
	}
	t.landed(k, c)
	t.asked(k, c.Key)
	k.state = refused
}

// landed records that a call is no longer in flight.
func (t *Table) landed(k *Ticket, c *Charge) {
	if k.unrecorded {
		k.unrecorded, t.unseen = false, true
		t.unrecorded--
		return // what is under way of the key by now is of later calls
	}
	t.keys.hint(c.Key, k.place)
	if e := t.keys.find(c.Key); e != nil && k.state == underway && k.voided == t.voided {
		e.asked, e.overruns = max(0, e.asked-k.cost), max(0, e.overruns-k.overrun())
	}
}

// cover admits the caller of a call in flight from memory. Its cost is owed at once, because calls
// that are sent from now on may overtake it.
func (t *Table) cover(k *Ticket, c *Charge, now budget.Instant) {
	t.landed(k, c)
	t.owe(c, c.Cost, now)
	k.covered, k.cost, k.mark, k.slot = c.Cost, 0, t.debtOf(c.Key).mark, c.Slot
}

// uncover handles a call that the store charged after its caller was admitted from memory. That
// cost is no longer owed, unless a call has carried the debt since: the store may then have taken
// it twice. Nor does it help what is owed if the store took it from contents that are lost.
func (t *Table) uncover(k *Ticket, c *Charge) {
	if c.Limit.Algorithm == limit.Concurrency {
		if d := t.debt[c.Key]; k.covered > 0 && d != nil && k.voided == t.voided {
			d.dropSlot(k.slot) // the store has it
		}
		k.covered = 0
		return
	}
	if d := t.debt[c.Key]; k.covered > 0 && d != nil && d.mark == k.mark && k.voided == t.voided {
		d.total = max(d.paid, d.total-k.covered)
		if !c.Limit.Algorithm.Counts() {
			t.admitted(c.Key, -k.covered) // see owe
		}
	}
	k.covered = 0
}

// owe adds what was admitted here to the debt.
func (t *Table) owe(c *Charge, cost limit.Tokens, now budget.Instant) {
	if cost == 0 {
		return
	}
	if c.Limit.Algorithm == limit.Concurrency {
		t.give(c, now)
		return
	}
	d := t.debtOf(c.Key)
	d.total += cost
	d.full = max(d.full, now.Add(max(c.Full, 2*c.Limit.Tail())))
	if !c.Limit.Algorithm.Counts() {
		t.admitted(c.Key, cost) // what is known of the key was brought to now
	}
}
