package sim

import (
	"slices"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/sim/shell"
)

// checkRecovered: everybody is live again; from here on all clients are greedy.
func (w *world) checkRecovered() {
	if w.failure != nil {
		return
	}
	cfg := &w.ledger.Config
	if !cfg.Steady() {
		w.violate("floors are not what the weights amount to %v after the last fault: %+v", recovery/2, cfg.Regions)
	}
	if cfg.Retiming() {
		w.violate("the timing is still being changed %v after the last fault: %+v", recovery/2, cfg)
	}
	for i, r := range cfg.Regions {
		n := w.nodeOf(i)
		switch {
		case r.Fenced:
			continue
		case !r.Takes():
			w.checkDrained(i)
			continue
		}
		if p := n.machine.Phase(n.now()); p != budget.Live {
			w.violate("region %d is not live %v after the last fault: %v, %+v", i, recovery/2, p, n.machine.Info(n.now()))
		}
	}
	for _, c := range w.clients {
		c.mode, c.cost, c.changes = greedy, limit.Token, w.now+int64(recovery)
		if w.chance(1, 2) {
			c.mode = single
			for c.home = w.rand.IntN(len(cfg.Regions)); !cfg.Regions[c.home].Takes(); {
				c.home = (c.home + 1) % len(cfg.Regions)
			}
		}
	}
}

// checkDrained: a region that was drained can admit nothing of any key.
func (w *world) checkDrained(region int) {
	for _, c := range w.clients {
		if b := w.enforced(region, c); b.Cap != 0 || b.Rate != (limit.Rate{}) {
			w.violate("region %d is drained and enforces %+v of key %d", region, b, c.key.Rule)
		}
		if shares := w.ledger.Shares(c.key); shares != nil && shares[region] != (budget.Share{}) {
			w.violate("region %d is drained and liable for %v of key %d", region, shares[region], c.key.Rule)
		}
	}
}

// checkUse: a limit that is asked for everywhere is used, as far as the slowest
// clock allows.
func (w *world) checkUse(began []limit.Tokens) {
	for i, c := range w.clients {
		if w.tooSmall(c) {
			continue // its rule has it split all the same
		}
		got := int64(c.ideal.spent - began[i])
		due := c.limit.Rate.Micro * int64(recovery/2) / second
		due += due / second * shell.Slowest(w.cfg.RhoPPM)
		if got < due/10*9 {
			w.violate("key %d (C %d, r %d): %d of %d micro-tokens used after the recovery",
				c.key.Rule, c.limit.Capacity/limit.Token, c.limit.Rate.Micro, got, due)
		}
	}
}

// tooSmall: the key has no home, and some region's floor is less than two requests.
func (w *world) tooSmall(c *client) bool {
	return !w.ledger.Config.Homed(c.keyLimit()) && slices.ContainsFunc(w.ledger.Config.Regions, func(r budget.RegionConfig) bool {
		return r.Takes() && shell.Bucket(c.limit, r.Floor).Cap < 2*limit.Token
	})
}
