package recall

import (
	"aliquot/budget"
	"aliquot/limit"
)

// Tells reports whether the table knows what is left of a charge's key: the store has reported it,
// or everything was spent from here since. If not, a denial says nothing about the limit.
func (t *Table) Tells(c *Charge, now budget.Instant) bool {
	if c.Bucket.Cap <= 0 {
		return false
	}
	e := t.certain(c, now)
	if c.Limit.Algorithm.Counts() {
		out := t.leftOf(c, &e, now)
		return out.Bucket.Cap > 0 && e.told && (c.Limit.Algorithm == limit.Concurrency || !unsure(c))
	}
	was, _ := t.keys.get(c.Key)
	return e.told && was.at >= c.From || t.Owed(c.Key, now) > 0
}

// Held returns what is known of a charge's key whose limit has changed, for a store that has no record of it: what its
// bucket holds at least, or what is in use at most of a counting limit. It includes what the key owes, because the call
// carries that debt. known is false if nothing is known, or if another daemon may have spent.
func (t *Table) Held(c *Charge, now budget.Instant) (held limit.Tokens, known bool) {
	if c.Foreign || t.isChanging(c.Key) {
		return 0, false
	}
	t.fold(c, now)
	e, found := t.keys.get(c.Key)
	switch {
	case c.Limit.Algorithm.Counts():
		m := t.usedBefore(c, &e, found, now)
		if m == nil {
			return 0, false
		}
		held = m.Used
		for _, earlier := range m.Earlier {
			held += earlier.Used
		}
		return held, true
	case !found:
		return t.untouched(c, now).left, true
	}
	held = e.bring(t.taken[c.Key], c, now).left + t.Owed(c.Key, now)
	if d := t.debt[c.Key]; d != nil {
		held -= d.lostCost()
	}
	return max(0, held), true
}
