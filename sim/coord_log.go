package sim

import (
	"slices"

	"aliquot/budget"
)

// logDelay is a quorum round.
func (w *world) logDelay() int64 {
	if d := w.opts.driven; d != nil {
		return int64(d.Quorum)
	}
	if w.strikes(slowLog, 100) {
		return w.between(0, 4*second)
	}
	return w.between(milli, 30*milli)
}

// commit replicates a plan. One that is deposed meanwhile learns nothing and
// steps down after a while; one whose floors have changed begins anew.
func (c *coord) commit(p budget.Plan) {
	c.pending = &p
	d, m := c.w.logDelay(), c.machine
	c.w.after(d/2, func() {
		if c.machine != m {
			return // the ledger would refuse it: its epoch is over
		}
		if c.dead || !c.leads() || c.pending != &p {
			c.w.after(c.w.between(0, 20*second), c.when(c.stop))
			return
		}
		if !c.applyPending() {
			return
		}
		c.w.after(d-d/2, c.when(func() { c.stepOf(m, budget.Committed{}) }))
	})
}

// stepOf is a step of machine m, if it still is the coordinator's.
func (c *coord) stepOf(m *budget.Leader, ev budget.LeaderEvent) {
	if c.machine == m {
		c.step(ev)
	}
}

// applyPending reports whether the ledger took the plan. It refuses one only if the
// floors have changed since it was made.
func (c *coord) applyPending() bool {
	p := *c.pending
	c.pending = nil
	// A rule that went away while the plan was on its way never comes back.
	kept := c.w.kept(c.w.version)
	p.Changes = slices.DeleteFunc(slices.Clone(p.Changes), func(e budget.Entry) bool { return e.Shares != nil && !kept(e.Key.Rule) })
	stale := c.cfg.Version != c.w.ledger.Config.Version
	c.w.note("committed", c.name, int64(len(p.Changes)), int64(b2i(stale)), 0, 0)
	if err := c.w.ledger.Apply(p); err != nil {
		if !stale {
			c.w.violate("the ledger refuses the leader's plan: %v", err)
		}
		return false
	}
	for _, r := range p.InitialRedisEpochs {
		c.cfg.Regions[r.Region].InitialRedisEpoch = c.w.ledger.Config.Regions[r.Region].InitialRedisEpoch
	}
	c.w.checkLedger()
	return true
}

// verify proves the leadership, if it is one at some time in between.
func (c *coord) verify() {
	d, m := c.w.logDelay(), c.machine
	c.w.after(d/2, func() {
		if c.machine != m {
			return
		}
		if c.dead || !c.leads() {
			c.w.after(c.w.between(0, 20*second), c.when(c.stop))
			return
		}
		c.w.after(d-d/2, c.when(func() { c.stepOf(m, budget.Verified{}) }))
	})
}
