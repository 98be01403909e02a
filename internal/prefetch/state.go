package prefetch

import "aliquot/budget"

// AppendState writes in canonical form what a key has, and what calls in flight hold up: everything
// that affects what it may spend. storeNow is the store's clock, in microseconds. Estimates and
// remembered denials are not part of it.
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

// AppendState writes a key's call in flight in canonical form.
func (t *Call) AppendState(c *budget.Canon, k *Key, now budget.Instant) {
	c.Int(int64(t.back))
	c.Int(int64(t.keep))
	c.Bools(t.renews, t.wants, t.turn == k.turn, t.drops == k.drops, t.leaseEnd != 0)
	c.Int(int64(now - t.sent))
	if t.leaseEnd != 0 {
		c.Int(int64(t.leaseEnd - now))
	}
}
