package sim

import (
	"slices"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/internal/sim/rule"
	"aliquot/internal/sim/shell"
	"aliquot/internal/sim/site"
	"aliquot/limit"
)

// checkRecovered checks that every region is live again. From here on all clients are greedy.
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
		n := w.NodeOf(i)
		switch {
		case r.Fenced:
			continue
		case !r.Takes():
			w.checkDrained(i)
			continue
		}
		if p := n.Machine.Phase(n.Now()); p != budget.Live {
			w.violate("region %d is not live %v after the last fault: %v, %+v", i, recovery/2, p, n.Machine.Info(n.Now()))
		}
	}
	for _, c := range w.clients {
		c.mode, c.cost, c.changes = greedy, limit.Token, w.Now()+int64(recovery)
		if w.Chance(1, 2) {
			c.mode = single
			for c.home = w.Rand.IntN(len(cfg.Regions)); !cfg.Regions[c.home].Takes(); {
				c.home = (c.home + 1) % len(cfg.Regions)
			}
		}
	}
}

// checkDrained checks that a drained region can admit nothing of any key.
func (w *world) checkDrained(region int) {
	for _, c := range w.Rules {
		if b := w.Enforced(region, c); b != (site.Part{}) {
			w.violate("region %d is drained and enforces %+v of key %d", region, b, c.Key.Rule)
		}
		if shares := w.ledger.Shares(c.Key); shares != nil && shares[region] != (budget.Share{}) {
			w.violate("region %d is drained and liable for %v of key %d", region, shares[region], c.Key.Rule)
		}
	}
}

// checkUse checks that a limit that is asked for everywhere is used, as far as the slowest clock
// allows, except for the one request of its burst that every region keeps.
func (w *world) checkUse(began []limit.Tokens) {
	for i, c := range w.clients {
		r := c.rule()
		homed, least := w.ledger.Config.Homed(r.KeyLimit(r.Latest())), w.leastFloor(r)
		if !homed && least < 2*limit.Token || w.coupled(c) {
			continue // split although it is small; or another limit is in the way
		}
		if c.fills() < 4*c.every {
			continue // its bucket is full before the client comes again
		}
		if c.fills() > int64(recovery/2) {
			continue // too slow for its demand to be measured in this time
		}
		l := r.Latest()
		got := int64(r.Ideal.Spent() - began[i])
		due := l.PerSecond().Micro * int64(recovery/2) / second
		due += due / 1000 * shell.Slowest(w.Config.RhoPPM) / million
		if fills := c.fills(); l.Capacity < 2*limit.Token {
			// A full bucket of one request earns nothing until the client comes again.
			asked := (fills + c.every - 1) / c.every * c.every
			due = due / asked * fills
		}
		if !homed && least < 10*limit.Token {
			due /= 2 // its rule has it split although it is small: whole requests move slowly
		}
		if r.Book != nil {
			// The measured time begins and ends within a window. Rights that move belong to no
			// region until what was used of them has left its window.
			due = due/2 - 2*int64(l.Capacity)
			if homed {
				due /= 3 // and with each move of its home it waits for a window
			}
		}
		kept := int64(len(w.ledger.Config.Regions)) * int64(limit.Token)
		if got < due/10*9-kept {
			w.violate("key %d (C %d, r %d): %d of %d micro-tokens used after the recovery",
				r.Key.Rule, l.Capacity/limit.Token, l.Rate.Micro, got, due)
		}
	}
}

// coupled reports whether some requests count against this limit and another one.
func (w *world) coupled(c *client) bool {
	return c.also != nil || slices.ContainsFunc(w.clients, func(other *client) bool { return other.also == c })
}

// leastFloor returns the smallest burst of a region's floor.
func (w *world) leastFloor(r *rule.Rule) limit.Tokens {
	least := r.Latest().Capacity
	for _, region := range w.ledger.Config.Regions {
		if region.Takes() {
			least = min(least, entitlement.Bucket(r.Latest(), region.Floor).Cap)
		}
	}
	return least
}
