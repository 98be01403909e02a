package sim

import (
	"slices"

	"aliquot/budget"
	"aliquot/internal/sim/faults"
)

// logDelay returns the time of a quorum round.
func (w *world) logDelay() int64 {
	if d := w.opts.driven; d != nil {
		return int64(d.Quorum)
	}
	if w.Faults.Strikes(faults.SlowLog, 100) {
		return w.Between(0, 4*second)
	}
	return w.Between(milli, 30*milli)
}

// commit replicates a plan. A coordinator that is deposed meanwhile is not told and steps down
// after a while. One whose floors have changed starts a new epoch.
func (c *coord) commit(p budget.Plan) {
	c.pending = &p
	d, m := c.w.logDelay(), c.machine
	c.w.After(d/2, func() {
		if c.machine != m {
			return // the ledger would refuse it, because its epoch is over
		}
		if c.dead || !c.leads() || c.pending != &p {
			c.w.After(c.w.Between(0, 20*second), c.when(c.stop))
			return
		}
		if !c.applyPending() {
			return
		}
		c.w.After(d-d/2, c.when(func() { c.stepOf(m, budget.Committed{}) }))
	})
}

// stepOf applies an event to state machine m, if that is still the coordinator's.
func (c *coord) stepOf(m *budget.Leader, ev budget.LeaderEvent) {
	if c.machine == m {
		c.step(ev)
	}
}

// applyPending reports whether the ledger accepted the plan. The ledger refuses one only if the
// floors have changed since it was made.
func (c *coord) applyPending() bool {
	p := *c.pending
	c.pending = nil
	// A rule that was removed while the plan was in flight never comes back.
	kept := c.w.kept(c.w.version)
	p.Changes = slices.DeleteFunc(slices.Clone(p.Changes), func(e budget.Entry) bool { return e.Shares != nil && !kept(e.Key.Rule) })
	stale := c.cfg.Version != c.w.ledger.Config.Version
	c.w.Note("committed", c.name, int64(len(p.Changes)), int64(b2i(stale)), 0, 0)
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

// beat is a message of a leader to the voters, with the answer of a majority: when it was sent,
// answered and received.
type beat struct{ sent, answered, back int64 }

// lateAnswer is how late an answer can be. The coordinators' transport then gives up on it.
const lateAnswer = 5 * second

// beats returns the messages whose answers come after a proof was requested now, if a round takes
// d: one that is in flight, and one that is sent now. Where the log is slow an answer can be late,
// and a coordinator that stopped finds the answer to an earlier message.
func (c *coord) beats(d int64) [2]beat {
	now := c.w.Now()
	before := now - d
	if c.w.Faults.Has(faults.SlowLog) {
		before = now - max(d, now%lateAnswer) // any time will do, and none is drawn
	}
	if before < c.pauseTo {
		before = min(before, c.pausedAt)
	}
	return [2]beat{{before, before + d/2, now}, {now, now + d/2, now + d}}
}

// ledAt reports whether the coordinator led at a true time that has passed.
func (c *coord) ledAt(t int64) bool { return c.leads() || t < c.deposedAt }

// verify proves the leadership by the answers to messages that are sent from now on
// (cluster/proof.go). Other answers may be from before the coordinator was deposed.
func (c *coord) verify() {
	m, asked, proven := c.machine, c.w.Now(), false
	for _, b := range c.beats(c.w.logDelay()) {
		if b.sent < asked {
			continue
		}
		c.w.After(b.answered-asked, func() {
			if c.machine != m || proven {
				return
			}
			if c.dead || !c.ledAt(b.answered) {
				c.w.After(c.w.Between(0, 20*second), c.when(c.stop))
				return
			}
			proven = true
			c.w.After(b.back-max(b.answered, asked), c.when(func() { c.stepOf(m, budget.Verified{}) }))
		})
	}
}
