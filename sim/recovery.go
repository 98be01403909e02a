package sim

import (
	"aliquot/budget"
	"aliquot/limit"
)

// checkRecovered: everybody is live again; from here on all clients are greedy.
func (w *world) checkRecovered() {
	if w.failure != nil {
		return
	}
	for i := range w.stores {
		n := w.nodeOf(i)
		if p := n.machine.Phase(n.now()); p != budget.Live {
			w.violate("region %d is not live %v after the last fault: %v, %+v", i, recovery/2, p, n.machine.Info(n.now()))
		}
	}
	for _, c := range w.clients {
		c.mode, c.cost, c.changes = greedy, limit.Token, w.now+int64(recovery)
	}
}

// checkUse: a limit that is asked for everywhere is used, as far as the slowest
// clock allows.
func (w *world) checkUse(began []limit.Tokens) {
	for i, c := range w.clients {
		if floor := w.cfg.Regions[len(w.stores)-1].Floor; localBucket(c.limit, floor).Cap < 2*limit.Token {
			continue // too small to be split; it will need a home
		}
		got := int64(c.ideal.spent - began[i])
		due := c.limit.Rate.Micro * int64(recovery/2) / second
		due += due / second * slowest(w.cfg.RhoPPM)
		if got < due/10*9 {
			w.violate("key %d (C %d, r %d): %d of %d micro-tokens used after the recovery",
				c.key.Rule, c.limit.Capacity/limit.Token, c.limit.Rate.Micro, got, due)
		}
	}
}
