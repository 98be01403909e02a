package recall

import (
	"aliquot/budget"
	"aliquot/limit"
)

// Decide decides one request under all its limits. It charges none of them unless each holds its
// cost and denied is false. No two charges may be of one key. out[i] is the outcome of charges[i]. A key
// for which the table has no room has no tokens, because it could not be charged.
func (t *Table) Decide(charges []Charge, denied bool, now budget.Instant, out []limit.Outcome) bool {
	allowed := !denied
	for i := range charges {
		c := &charges[i]
		out[i] = t.look(c, now)
		if allowed = allowed && t.holds(c, out[i]); allowed && !t.keys.has(c.Key) && !t.makeRoom(now) {
			allowed, out[i].Tokens = false, min(0, out[i].Tokens)
		}
	}
	if !allowed {
		return false
	}
	for i := range charges {
		if t.admit(&charges[i], now) {
			out[i].Tokens -= charges[i].Cost
		}
	}
	return true
}

// look returns what is available to a charge.
func (t *Table) look(c *Charge, now budget.Instant) limit.Outcome {
	e := t.certain(c, now)
	if c.Limit.Algorithm.Counts() {
		return t.leftOf(c, &e, now)
	}
	return limit.Outcome{Tokens: max(0, e.left-t.pending(c, &e)), Bucket: c.Bucket}
}

// holds reports whether the available amount covers a charge, or whether the store charged the
// request's own call after its caller gave up.
func (t *Table) holds(c *Charge, out limit.Outcome) bool {
	return out.Tokens >= c.Cost || c.Own != nil && c.Own.state == charged && c.Own.voided == t.voided
}

// admit charges one limit of an admitted request, unless the request's own call was charged. It
// reports whether it did.
func (t *Table) admit(c *Charge, now budget.Instant) bool {
	if own := c.Own; own != nil && own.state == charged && own.voided == t.voided {
		own.state = refused // for this one request
		return false
	}
	e := t.find(c, now)
	t.replace(c.Key, e)
	if a := c.Limit.Algorithm; a.Counts() && a != limit.Concurrency {
		t.useOf(c, &e, now).add(c, c.Cost)
	}
	own := c.Own
	switch {
	case !t.stands(own, c):
		t.owe(c, c.Cost, now)
	case own.state == underway:
		t.cover(own, c, now)
	default:
		t.debt[c.Key].found(own)
		own.cost = 0
		t.owe(c, c.Cost, now)
	}
	return true
}

// pending returns what calls other than the request's own may have taken, or may still take.
func (t *Table) pending(c *Charge, e *entry) limit.Tokens {
	out := e.asked
	if d := t.debt[c.Key]; d != nil {
		out += d.lostCost()
	}
	if t.stands(c.Own, c) {
		out -= c.Own.cost
	}
	return max(0, out)
}

// stands reports whether the table still holds the charge of a call: the call is in flight, or its
// result is unknown.
func (t *Table) stands(k *Ticket, c *Charge) bool {
	if k == nil || k.voided != t.voided {
		return false
	}
	d := t.debt[c.Key]
	return k.state == underway || k.state == missing && d != nil && d.holds(k)
}
