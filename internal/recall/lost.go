package recall

import (
	"aliquot/budget"
	"aliquot/limit"
)

// A call without an answer may still be decided, until its deadline. Until then its cost counts as not left. From then on
// the store has taken it, or never will. So it comes off what was left at the deadline, and the key earns from there; a
// window has it in use until its end, and so has a slot. A long outage refuses nobody for a call that was lost as it began.
//
// Worked number: 5 of 5 were left and 1 a second was earned, when three calls for 2 were lost. Until their deadline none of
// them fits beside the other two. Then at least 0 are left, and five seconds later the bucket is full.

// Lost keeps a charge: the store may decide the call until an instant. It reads the charge's key and limit.
func (t *Table) Lost(k *Ticket, c *Charge, until budget.Instant) {
	if k.state != underway {
		return
	}
	t.landed(k, c)
	t.asked(k, c.Key)
	k.state = missing
	if k.cost == 0 || k.voided != t.voided {
		return
	}
	if _, known := t.keys[c.Key]; !known {
		t.whole = max(t.whole, until)
		return
	}
	d := t.debtOf(c.Key)
	if d.lost == 0 {
		d.lostSince = k.sent
	}
	d.lost, d.lostSince = d.lost+k.cost, min(d.lostSince, k.sent)
	k.mark = d.lostMark
	d.lostUntil = max(d.lostUntil, until)
	if c.Limit.Algorithm == limit.Concurrency {
		d.lostEnds = max(d.lostEnds, until+lasting(c))
	}
}

// fold counts what calls without an answer may have taken of a charge's key as taken, once the store can no longer decide
// them.
func (t *Table) fold(c *Charge, now budget.Instant) {
	d := t.debt[c.Key]
	if d == nil || d.lost == 0 || now <= d.lostUntil {
		return
	}
	e, known := t.keys[c.Key]
	switch {
	case c.Limit.Algorithm == limit.Concurrency:
		if now < max(d.lostEnds, d.lostUntil+lasting(c)) {
			return
		}
		d.lost, d.lostMark = 0, t.nextMark()
		t.settle(c.Key, d)
		return
	case !known:
		t.whole = max(t.whole, d.lostUntil)
	case c.Limit.Algorithm.Counts():
		if c.OldClock || unsure(c) {
			return
		}
		from, to := c.between(d.lostSince, d.lostUntil, now)
		t.useOf(c, &e, now).count(c, amount{used: d.lost, lost: d.lost}, max(from, c.StoreNow-c.Limit.Window.Microseconds()), to)
	default:
		t.take(c.Key, d.lost, d.lostUntil)
	}
	d.lost, d.folded, d.lostMark = 0, d.folded+d.lost, t.nextMark()
}

// unfold lets them count as not left again: what the store has just said of their key may be of before they were decided.
func (t *Table) unfold(key budget.KeyID) {
	delete(t.taken, key)
	if d := t.debt[key]; d != nil && d.folded > 0 {
		d.lost, d.folded, d.lostMark = d.lost+d.folded, 0, t.nextMark()
	}
}

// decided drops what calls of a key may have taken that the store had decided, or never will, when it decided a call that
// was sent then: its answer says what became of them.
func (d *debt) decided(t *Table, sent budget.Instant) {
	if d.lost+d.folded > 0 && sent > d.lostUntil {
		d.lost, d.folded, d.lostMark = 0, 0, t.nextMark()
	}
}

// take records that calls have taken at most an amount of a bucket by an instant.
func (t *Table) take(key budget.KeyID, most limit.Tokens, by budget.Instant) {
	t.taken[key] = taken{most: most + t.taken[key].most, owed: t.Owed(key, by), at: by}
}

// between returns a time that the store's clock had certainly reached at an instant, and one that it had certainly not
// passed at a later one, in microseconds. Neither is after now.
func (c *Charge) between(from, to, now budget.Instant) (least, latest int64) {
	older, age := int64(now-from+999)/1000, int64(now-to)/1000
	return c.StoreNow - older - drift(older, c), c.StoreLatest - age + drift(age, c)
}

// drift bounds what two clocks may differ by after some microseconds.
func drift(age int64, c *Charge) int64 { return (age*c.RhoPPM + 999_999) / 1_000_000 }
