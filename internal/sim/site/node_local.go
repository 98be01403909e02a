package site

import (
	"aliquot/budget"
	"aliquot/internal/prefetch"
	"aliquot/internal/sim/rule"
	"aliquot/limit"
)

const (
	// sweepEvery is how often a daemon with chunks checks them.
	sweepEvery = 20 * milli
	// tellEvery is how late the state machine learns of decisions that were made without the store.
	tellEvery = 20 * milli
)

// local is what a daemon knows of one limit's key without asking its store.
type local struct {
	prefetch.Key
	told budget.Instant // when the state machine last learned of its decisions
}

// localOf returns what the daemon knows of a rule's key; nil if the rule requires that every
// request is asked.
func (n *Node) localOf(r *rule.Rule) *local {
	if !r.Local {
		return nil
	}
	for len(n.locals) <= r.Index {
		n.locals = append(n.locals, nil)
	}
	if n.locals[r.Index] == nil {
		n.locals[r.Index] = &local{}
	}
	return n.locals[r.Index]
}

// stand ends all chunks and memories if the conditions that they depend on have changed.
func (n *Node) stand() {
	now := prefetch.Validity{
		Session: n.Machine.Session(), Contents: n.epoch, Config: n.Machine.Config().Version, Rules: n.Version,
	}
	ends, drops := n.validity.Ends(now)
	n.validity = now
	for _, k := range n.locals {
		switch {
		case k == nil:
		case drops:
			k.Drop()
		case ends:
			k.End()
		}
	}
}

// seen counts the requests of a call, whether the daemon or the store decides them.
func (c *takeCall) seen() {
	now := c.n.Now()
	for _, r := range c.rules {
		if k := c.n.localOf(r); k != nil {
			k.CountChecks(c.cost, int64(c.tries), now)
		}
	}
}

// decideLocally decides what it can without the store, and reports whether nothing is left to ask.
func (c *takeCall) decideLocally() bool {
	c.n.stand()
	for c.tries > 0 {
		holds, denied := c.decidable()
		switch {
		case denied:
			c.refuse()
		case holds == 0:
			return false
		default:
			c.spend(holds)
		}
	}
	return true
}

// decidable returns how many of the requests the chunks of all limits hold, and whether one of the
// limits is known to deny the next request.
func (c *takeCall) decidable() (holds int, denied bool) {
	holds = c.tries
	for _, r := range c.rules {
		k := c.n.localOf(r)
		if k == nil {
			return 0, false
		}
		switch k.Peek(c.cost, c.n.Now()) {
		case prefetch.Holds:
			holds = min(holds, int(k.Left()/c.cost))
		case prefetch.Denied:
			denied = true
		default:
			holds = 0
		}
	}
	return holds, denied
}

// spend admits requests from the chunks of all their limits.
func (c *takeCall) spend(tries int) {
	n, amount := c.n, limit.Tokens(tries)*c.cost
	c.tries -= tries
	c.here = append(c.here, Admission{N: tries, At: duration(n.w.Now())})
	n.w.Decisions += int64(tries)
	n.w.Chunked += int64(tries)
	for _, r := range c.rules {
		n.localOf(r).Spend(amount, n.Now())
		n.w.above.Admit(r, n.Region, amount, nil)
		n.look()
	}
}

// refuse denies what is left of the call, by the limits that deny it. It counts one request, unless
// the caller counts them all.
func (c *takeCall) refuse() {
	n, tries := c.n, 1
	if c.done != nil {
		tries = c.tries
	}
	c.tries = 0
	n.w.Decisions++
	for _, r := range c.rules {
		if k := n.localOf(r); k.Peek(c.cost, n.Now()) == prefetch.Denied {
			k.Refuse(limit.Tokens(tries)*c.cost, n.Now())
			n.look()
		}
	}
}

// bring sets what a call returns and wants of each of its limits' chunks.
func (c *takeCall) bring() {
	n, lends := c.n, true
	for i := range c.asks {
		a := &c.asks[i]
		k := n.localOf(a.rule)
		lends = lends && k != nil && k.Busy(n.Now()) && a.right.Phase != budget.Limbo && !a.limit.Algorithm.Counts()
	}
	for i := range c.asks {
		a := &c.asks[i]
		if k := n.localOf(a.rule); k != nil {
			a.brought = true
			a.view.Chunk, a.trip = k.Checkout(c.cost, n.terms(a, lends), n.Now())
			n.look()
		}
	}
}

// terms returns the terms of one limit of a call.
func (n *Node) terms(a *ask, lends bool) prefetch.Terms {
	t := prefetch.Terms{Algorithm: a.limit.Algorithm, Lends: lends, Rho: int64(n.w.Config.RhoPPM)}
	if a.right.Phase == budget.Live {
		t.Until = a.right.Until
	}
	return t
}

// took passes the store's answer to the chunks: what was lent with the first request, and what is
// left after the last.
func (c *takeCall) took(rep *taken) {
	n, last := c.n, rep.tried()-1
	for i := range c.asks {
		a := &c.asks[i]
		k := n.localOf(a.rule)
		if k == nil || !a.brought {
			continue
		}
		a.brought = false
		out, first := rep.try(last)[i], &rep.try(0)[i]
		out.Lent, out.LentFor, out.LentUntil, out.Kept = first.Lent, first.LentFor, first.LentUntil, first.Kept
		k.Complete(a.trip.Spent(a.spent), last < rep.admitted, out, rep.time, n.Now())
		if out.Lent > 0 {
			n.w.Quiet("borrows", n.Region, int64(a.rule.Key.Rule), int64(n.Name), int64(out.Lent), 0)
		}
		n.look()
		n.tell(a.rule)
	}
}

// lose ends a call of which it is unknown what became of it.
func (c *takeCall) lose() {
	for i := range c.asks {
		a := &c.asks[i]
		if k := c.n.localOf(a.rule); k != nil && a.brought {
			a.brought = false
			k.Fail(a.trip)
		}
	}
}

// look plans a sweep, so that a key is checked soon.
func (n *Node) look() {
	if !n.sweeping {
		n.sweeping = true
		n.w.Plan(sweepEvery, (*sweeper)(n))
	}
}

// sweeper is a daemon's next sweep.
type sweeper Node

func (s *sweeper) Happen() {
	if n := (*Node)(s); n.runs(s) {
		n.sweep()
	}
}

// sweep renews chunks, returns what is not used, and reports to the state machine what was decided
// without the store.
func (n *Node) sweep() {
	n.sweeping = false
	n.stand()
	for i, k := range n.locals {
		if k == nil || k.Idle(n.Now()) {
			continue
		}
		r := n.w.Rules[i]
		n.look()
		if n.Now().Sub(k.told) >= duration(tellEvery) {
			n.tell(r)
		}
		switch k.Due(n.Now()) {
		case prefetch.Renewal:
			n.errand(r, true)
		case prefetch.Return:
			n.errand(r, false)
		}
	}
}

// tell reports to the state machine what was decided without the store since the previous report.
func (n *Node) tell(r *rule.Rule) {
	k := n.localOf(r)
	k.told = n.Now()
	admitted, denied := k.TakeCounts()
	if admitted == 0 && denied == 0 || !r.InForce(n.Version) {
		return
	}
	l := n.limitOf(r)
	v := n.view(n.Machine.Right(r.Key, r.KeyLimit(l), n.Now()), r, l)
	u := budget.Usage{
		Rules: n.rulesInForce(), Limit: r.KeyLimit(l), Tokens: int64(max(0, k.Outcome(n.Now()).Tokens)), FloorCap: int64(v.Floor.Cap), ColdCap: int64(v.Cold().Cap),
	}
	if admitted > 0 {
		u.Cost, u.Admitted = int64(admitted), true
		n.Machine.Observe(r.Key, u, n.Now())
	}
	if denied > 0 {
		u.Cost, u.Admitted = int64(denied), false
		n.Machine.Observe(r.Key, u, n.Now())
	}
}

// errand makes a call that decides nothing: it renews a key's chunk, or returns it.
func (n *Node) errand(r *rule.Rule, renew bool) {
	if n.Dead || n.paused() || !n.configured() || n.epoch == "" || n.staleFloors() || !r.InForce(n.Version) {
		return
	}
	if n.clockless() || !n.spends() || !n.breaker.passes(n.w.Now()) {
		return
	}
	c := n.newCall(takeCall{rules: []*rule.Rule{r}, tries: 1, errand: true})
	c.asks = n.asks(c.asks, c.rules)
	a := &c.asks[0]
	k := n.localOf(r)
	a.brought = true
	if renew {
		a.view.Chunk, a.trip = k.Renew(n.terms(a, a.right.Phase != budget.Limbo), n.Now())
	} else {
		a.view.Chunk, a.trip = k.Checkout(0, n.terms(a, false), n.Now())
	}
	c.leave()
}

// forget ends what the daemon has and remembers of a key, because the key's share has changed.
func (n *Node) forget(r *rule.Rule) {
	if k := n.localOf(r); k != nil {
		k.End()
	}
}

// recall ends a key's chunk because the key's share is about to change. It returns what the change
// brings back of it. Whatever becomes of the change, nothing of the chunk is spent any more.
func (n *Node) recall(r *rule.Rule, l limit.Limit) limit.ChunkView {
	k := n.localOf(r)
	if k == nil || l.Algorithm.Counts() {
		return limit.ChunkView{}
	}
	k.End()
	view, trip := k.Checkout(0, prefetch.Terms{Algorithm: l.Algorithm, Rho: int64(n.w.Config.RhoPPM)}, n.Now())
	k.Fail(trip)
	return view
}
