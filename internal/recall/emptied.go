package recall

import (
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

// HoldsUntil records an instant up to which no other daemon can have had the region's session,
// because a coordinator has answered in this daemon's session.
func (t *Table) HoldsUntil(until budget.Instant) { t.heldUntil = max(t.heldUntil, until) }

// InSession reports whether no other daemon can have had the region's session.
func (t *Table) InSession(now budget.Instant) bool { return now < t.heldUntil }

// Emptied records that the store's contents have changed. If the daemon holds the session, the
// table keeps what it knows of keys, and Memory has it for the store. Calls in flight count as
// having taken from the earlier contents. If the daemon does not hold the session, the table
// forgets everything except what is owed, because another daemon may have spent.
func (t *Table) Emptied(now budget.Instant) {
	if !t.InSession(now) {
		t.Void(now)
		return
	}
	t.voided++
	t.emptied = now
	for key := range t.changing { // the change may have been made
		if e, known := t.keys.get(key); known {
			t.keys.put(key, e.uncertain())
		}
	}
	clear(t.changing)
	t.Disown() // the present contents do not name them
	for key, e := range t.keys.all() {
		most, overruns, by := e.asked, e.overruns, now
		if d := t.debt[key]; d != nil {
			most += d.lostCost()
			overruns += d.lostOverruns()
			if e.asked == 0 {
				by = min(now, d.lostUntil())
			}
			if e.counts && d.folded.cost > 0 {
				d.oweFolded(now)
			}
		}
		if most == 0 {
			continue
		}
		if e.asked, e.overruns = 0, 0; e.counts {
			t.takenOfUse(key, most, now)
		} else {
			t.take(key, most, overruns, by)
		}
		t.keys.put(key, e)
	}
	for key, d := range t.debt {
		d.lost, d.folded = nil, lostCalls{}
		t.settle(key, d)
	}
}

// longestDebt bounds how long the debt of a window lasts.
const longestDebt = 2 * 366 * 24 * time.Hour

// takenOfUse counts calls in flight as admitted here, in the window in which the store hears of
// them.
func (t *Table) takenOfUse(key budget.KeyID, taken limit.Tokens, now budget.Instant) {
	d := t.debtOf(key)
	if d.oweOfUse(taken, now); d.use != nil {
		d.use.undated += taken
	}
}

// oweOfUse has a key owe what calls may have taken of contents that are lost.
func (d *debt) oweOfUse(taken limit.Tokens, now budget.Instant) {
	d.total, d.full = d.total+taken, max(d.full, now.Add(longestDebt))
}

// oweFolded is oweOfUse for what is in use already: it keeps its dates.
func (d *debt) oweFolded(now budget.Instant) {
	if d.oweOfUse(d.folded.cost, now); d.use != nil {
		d.use.own()
	}
}

// Remembers reports whether Memory may return something for a rule that forgives nothing.
func (t *Table) Remembers() bool { return t.emptied != 0 }

// Memory returns what the store must be told of a charge's key, because it may have lost the record
// with earlier contents. Nil: nothing is known and nothing is forgiven, or nothing of it matters any
// more. It includes what the key owes, because the call carries that debt.
func (t *Table) Memory(c *Charge, now budget.Instant) *limit.Memory {
	m := t.remembered(c, now)
	if m == nil && t.forgives(c) {
		m = &limit.Memory{Tokens: limit.MaxTokens} // the store cuts it to what the key may hold
	}
	return m
}

// forgives reports whether a key starts afresh in the store's present contents, if they have no
// record of it: its rule says so, and what was lost may still matter. A key that the store has
// answered about since was forgiven then.
func (t *Table) forgives(c *Charge) bool {
	if !c.Forgives || c.Birth == 0 || c.OldClock {
		return false
	}
	if e, known := t.keys.get(c.Key); known && e.stamp >= c.Birth {
		return false
	}
	matters := max(c.Full, 2*c.Limit.Tail()).Microseconds()
	return c.StoreNow <= c.Birth+matters+matters/2 // half of it is more than clocks may differ by
}

// remembered is Memory without what is forgiven.
func (t *Table) remembered(c *Charge, now budget.Instant) *limit.Memory {
	if t.emptied == 0 || c.Foreign || now > t.emptied.Add(max(c.Full, 2*c.Limit.Tail())) {
		return nil
	}
	e, known := t.keys.get(c.Key)
	lost, owed := t.taken[c.Key], t.Owed(c.Key, now)
	if ch := t.changing[c.Key]; ch.was.told {
		e, lost, owed = ch.was, ch.taken, ch.owed // it has not paid for what was admitted since
	}
	if c.Limit.Algorithm.Counts() {
		return t.usedBefore(c, &e, known, now)
	}
	if !known {
		return &limit.Memory{Tokens: t.untouched(c, now).left}
	}
	m := limit.Memory{Tokens: max(e.bring(lost, c, now).left+owed, -limit.MaxTokens)}
	if c.Extra && e.at >= c.From {
		m.Extra = min(max(0, lost.of(e.left)-c.Bucket.Cap), limit.MaxTokens)
	}
	return &m
}

// usedBefore is Memory for a counting limit.
func (t *Table) usedBefore(c *Charge, e *entry, known bool, now budget.Instant) *limit.Memory {
	tail, other := c.Limit.Tail(), *c
	if c.OldClock {
		other.StoreNow = 0 // the store that is told may have another one
	}
	switch {
	case !known && t.unused(&other, now):
		return &limit.Memory{}
	case !known, !e.told, e.unknown(), e.at < c.From && now < c.From.Add(tail+tail/2):
		return nil
	}
	earlier, rest := t.usedBy(c, e, now)
	return &limit.Memory{Used: rest, Rights: min(max(0, e.left+limit.Tokens(e.basis)), limit.MaxTokens), At: e.stamp, Earlier: earlier}
}
