package chunk

import "aliquot/budget"

// AppendState writes what a key has, and what calls under way hold up, in canonical form:
// all that what it may spend depends on. storeNow is the store's clock, microseconds.
// What it estimates and remembers of denials is not part of it.
func (k *Key) AppendState(c *budget.Canon, now budget.Instant, storeNow int64) {
	c.Int(int64(k.left))
	c.Int(int64(k.out))
	c.Int(int64(k.carried))
	c.Int(int64(k.calls))
	c.Bools(k.live && now < k.end, k.renewing, k.wanting)
	if k.left > 0 || k.live {
		c.Left(now, k.end)
	}
	if k.out > 0 {
		c.Int(k.until - storeNow)
	}
}

// AppendState writes a call under way of a key in canonical form.
func (t *Trip) AppendState(c *budget.Canon, k *Key, now budget.Instant) {
	c.Int(int64(t.back))
	c.Int(int64(t.keep))
	c.Bools(t.renews, t.wants, t.turn == k.turn, t.drops == k.drops, t.leaseEnd != 0)
	c.Int(int64(now - t.sent))
	if t.leaseEnd != 0 {
		c.Int(int64(t.leaseEnd - now))
	}
}
