package recall

import (
	"math"
	"slices"

	"aliquot/budget"
	"aliquot/limit"
)

// A call without an answer may still be decided, until its deadline. Until then its cost counts as not left. From then on
// the store has taken it, or never will. So it comes off what was left at the deadline, and the key earns from there; a
// window has it in use until its end, and so has a slot. A long outage refuses nobody for a call that was lost as it began.
//
// Worked number: 5 of 5 were left and 1 a second was earned, when three calls for 2 were lost. Until their deadline none of
// them fits beside the other two. Then at least 0 are left, and five seconds later the bucket is full.

// lostCalls are calls without an answer that were sent about the same time. A key has a few of these, so that calls which
// are lost one after the other do not keep the first of them from being over.
type lostCalls struct {
	cost, overruns limit.Tokens
	// since is when the first of them was sent; 0: not known. A call that is sent after closes is not one of them.
	since, closes budget.Instant
	// until is when the store can no longer decide them. Slots that they took end by ends.
	until, ends budget.Instant
	mark        uint64 // no others have it
}

// maxLost bounds how many of them a key has.
const maxLost = 8

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
	if !t.keys.has(c.Key) {
		t.whole = max(t.whole, until)
		return
	}
	one := lostCalls{cost: k.cost, overruns: k.overrun(), since: k.sent, closes: until, until: until}
	if c.Limit.Algorithm == limit.Concurrency {
		one.ends = until + lasting(c)
	}
	k.mark = t.lose(t.debtOf(c.Key), one)
}

// lose adds a call to the latest lost ones if they have not closed, and returns their mark.
func (t *Table) lose(d *debt, one lostCalls) uint64 {
	if n := len(d.lost); n > 0 && one.since <= d.lost[n-1].closes {
		d.lost[n-1].add(&one)
		return d.lost[n-1].mark
	}
	for len(d.lost) >= maxLost {
		d.joinLost()
	}
	one.mark = t.nextMark()
	d.lost = append(d.lost, one)
	return one.mark
}

// joinLost makes one of the two lost calls next to each other that were sent within the shortest time.
func (d *debt) joinLost() {
	at, least := 0, budget.Instant(math.MaxInt64)
	for i := range d.lost[1:] {
		if within := d.lost[i+1].until - d.lost[i].since; within < least {
			at, least = i, within
		}
	}
	later := &d.lost[at+1]
	later.add(&d.lost[at])
	d.lost = slices.Delete(d.lost, at, at+1)
}

func (l *lostCalls) add(b *lostCalls) {
	l.overruns += b.overruns
	l.cost, l.since, l.until, l.ends = l.cost+b.cost, min(l.since, b.since), max(l.until, b.until), max(l.ends, b.ends)
}

// holds reports whether a call that was lost is still among the lost ones.
func (d *debt) holds(k *Ticket) bool {
	return slices.ContainsFunc(d.lost, func(l lostCalls) bool { return l.mark == k.mark && l.cost >= k.cost })
}

// found takes such a call out.
func (d *debt) found(k *Ticket) {
	d.lost = slices.DeleteFunc(d.lost, func(l lostCalls) bool { return l.mark == k.mark && l.cost == k.cost })
	for i := range d.lost {
		if l := &d.lost[i]; l.mark == k.mark {
			l.cost -= k.cost
		}
	}
}

func (d *debt) lostCost() (sum limit.Tokens) {
	for i := range d.lost {
		sum += d.lost[i].cost
	}
	return sum
}

func (d *debt) lostOverruns() (sum limit.Tokens) {
	for i := range d.lost {
		sum += d.lost[i].overruns
	}
	return sum
}

// lostUntil returns when the store can decide no lost call of a key any more, and lostEnds when all slots have ended that
// such calls took.
func (d *debt) lostUntil() budget.Instant {
	until := d.folded.until
	for i := range d.lost {
		until = max(until, d.lost[i].until)
	}
	return until
}

func (d *debt) lostEnds() (ends budget.Instant) {
	for i := range d.lost {
		ends = max(ends, d.lost[i].ends)
	}
	return ends
}

// fold counts what calls without an answer may have taken of a charge's key as taken, once the store can no longer decide
// them.
func (t *Table) fold(c *Charge, now budget.Instant) {
	d := t.debt[c.Key]
	if d == nil || len(d.lost) == 0 {
		return
	}
	d.lost = slices.DeleteFunc(d.lost, func(l lostCalls) bool { return now > l.until && t.foldThese(d, &l, c, now) })
	t.settle(c.Key, d)
}

// foldThese is fold for some of them. It reports whether they are no longer lost.
func (t *Table) foldThese(d *debt, l *lostCalls, c *Charge, now budget.Instant) bool {
	e, known := t.keys.get(c.Key)
	switch {
	case c.Limit.Algorithm == limit.Concurrency:
		return now >= max(l.ends, l.until+lasting(c))
	case !known:
		t.whole = max(t.whole, l.until)
	case c.Limit.Algorithm.Counts():
		if c.OldClock || unsure(c) {
			return false
		}
		from, to := c.between(l.since, l.until, now)
		use := amount{used: l.cost, lost: l.cost}
		t.useOf(c, &e, now).count(c, use, max(from, c.StoreNow-c.Limit.Window.Microseconds()), to)
	default:
		if before, is := t.taken[c.Key]; is && before.at < l.until && !t.isChanging(c.Key) {
			t.replace(c.Key, e.less(before, c)) // it earns from there
		}
		t.take(c.Key, l.cost, l.overruns, l.until)
	}
	if d.folded.cost == 0 {
		d.folded = *l
	} else {
		d.folded.add(l)
	}
	return true
}

// unfold lets them count as not left again: what the store has just said of their key may be of before they were decided.
func (t *Table) unfold(key budget.KeyID) {
	delete(t.taken, key)
	if d := t.debt[key]; d != nil && d.folded.cost > 0 {
		d.folded.mark = t.nextMark()
		d.lost, d.folded = slices.Insert(d.lost, 0, d.folded), lostCalls{}
	}
}

// decided drops what calls of a key may have taken that the store had decided, or never will, when it decided a call that
// was sent then: its answer says what became of them.
func (d *debt) decided(sent budget.Instant) {
	d.lost = slices.DeleteFunc(d.lost, func(l lostCalls) bool { return sent > l.until })
	if sent > d.folded.until {
		d.folded = lostCalls{}
	}
}

// take records that calls have taken at most an amount of a bucket by an instant.
func (t *Table) take(key budget.KeyID, most, overruns limit.Tokens, by budget.Instant) {
	before := t.taken[key]
	by = max(by, before.at)
	t.taken[key] = taken{most: most + before.most, overruns: overruns + before.overruns, owed: t.Owed(key, by), at: by}
}

// between returns a time that the store's clock had certainly reached at an instant, and one that it had certainly not
// passed at a later one, in microseconds. Neither is after now.
func (c *Charge) between(from, to, now budget.Instant) (least, latest int64) {
	older, age := int64(now-from+999)/1000, int64(now-to)/1000
	return c.StoreNow - older - drift(older, c), c.StoreLatest - age + drift(age, c)
}

// drift bounds what two clocks may differ by after some microseconds.
func drift(age int64, c *Charge) int64 { return (age*c.RhoPPM + 999_999) / 1_000_000 }
