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
