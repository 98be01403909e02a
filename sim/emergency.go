package sim

import (
	"aliquot/budget"
	"aliquot/limit"
	"aliquot/rights"
)

// debt is what a daemon knows of one limit while its store does not answer: an
// in-process bucket that starts empty and earns nine tenths of the region's right,
// and what it admitted and the store has not been told of.
type debt struct {
	open   bool
	record limit.Record
	owed   limit.Tokens
	until  budget.Instant // from then on the store's bucket is full whatever it is told
	// calls is up to when the store may still decide by an earlier debt. Until then the
	// bucket holds and earns nothing: what it admitted could not be taken off any more.
	calls budget.Instant
}

// emergencyStamp marks in-process records: their contents never change.
const emergencyStamp = 1

// decideAlone decides without the store, as a rule with on_redis_failure: local does.
func (c *takeCall) decideAlone() {
	if c.over {
		return
	}
	c.over = true
	c.lose()
	n := c.n
	if c.errand {
		return
	}
	if n.w.faults[secondDaemon] {
		return // each daemon has a bucket of its own; see doc.go
	}
	asks := n.asks(nil, rulesOf(c.asks)) // by what it may spend now
	records, views := make([]limit.Record, len(asks)), make([]limit.View, len(asks))
	for i := range asks {
		d := n.debtOf(asks[i].rule)
		if !d.open {
			d.open, d.record = true, limit.Record{Stamp: emergencyStamp, At: n.micros()}
		}
		if n.now() < d.calls {
			return // denied
		}
		d.record.At = max(d.record.At, int64(d.calls)/1000+1)
		records[i] = d.record
		views[i] = limit.View{Floor: rights.Emergency(asks[i].right, asks[i].limit), Phase: limit.Floor, Stamp: emergencyStamp}
	}
	for range c.tries {
		out := make([]limit.Outcome, len(asks))
		admitted := limit.Take(records, views, c.cost, n.micros(), out)
		n.w.decisions++
		for i := range asks {
			a, d := &asks[i], n.debtOf(asks[i].rule)
			d.record = records[i]
			if admitted {
				d.owed += c.cost
				d.until = n.now().Add(rights.TimeToFull(a.right, a.limit, a.rule.elastic))
				n.w.emergencies++
				n.w.note("without the store", n.region, int64(a.rule.key.Rule), int64(n.name), int64(d.owed), 0)
				n.w.admit(a.rule, n.region, c.cost, nil)
			}
			if a.right.Hot && (admitted || out[i].Tokens < c.cost) {
				n.machine.Observe(a.rule.key, budget.Usage{
					Limit: a.rule.keyLimit(a.limit), Cost: int64(c.cost), Admitted: admitted, Tokens: int64(out[i].Tokens),
				}, n.now())
			}
		}
		if !admitted {
			break
		}
	}
}

func rulesOf(asks []ask) []*rule {
	out := make([]*rule, len(asks))
	for i := range asks {
		out[i] = asks[i].rule
	}
	return out
}

// micros is the daemon's clock as a store would show it.
func (n *node) micros() int64 { return int64(n.now()) / 1000 }

func (n *node) debtOf(r *rule) *debt {
	for len(n.debts) <= r.index {
		n.debts = append(n.debts, debt{})
	}
	return &n.debts[r.index]
}

// owes is the debt that a call of the store carries: all of it, whatever other calls
// carry that are under way.
func (n *node) owes(r *rule) limit.Tokens {
	d := n.debtOf(r)
	if n.now() > d.until {
		d.owed = 0
	}
	return d.owed
}

// paid: the store has taken off what a call carried. Without a debt the bucket is
// forgotten.
func (n *node) paid(r *rule, amount limit.Tokens) {
	d := n.debtOf(r)
	if d.owed = max(0, d.owed-amount); d.owed == 0 {
		*d = debt{calls: d.calls}
	}
}

// calls notes a call of the store that may be decided up to the given time.
func (n *node) calls(r *rule, until budget.Instant) {
	d := n.debtOf(r)
	d.calls = max(d.calls, until)
	d.record.Tokens, d.record.Carry = 0, 0
}

// forgiveDebts: a daemon that dies takes with it what it knows of its debts. The
// oracle lets that pass; see doc.go.
func (n *node) forgiveDebts() {
	for i := range n.debts {
		if d := &n.debts[i]; d.owed > 0 {
			n.w.rules[i].ideal.give(d.owed, n.w.now)
		}
	}
}
