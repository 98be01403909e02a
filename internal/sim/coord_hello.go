package sim

import (
	"slices"

	"aliquot/budget"
)

// hello passes a Hello to the state machine. A region that an operator has fenced gets no answer
// with shares.
func (c *coord) hello(h budget.Hello, r reply) {
	if c.w.ledger.Config.Regions[h.Region].Fenced && c.leads() {
		r(budget.CallFailed{})
		return
	}
	c.hellos[h.Region] = append(c.hellos[h.Region], helloWait{incarnation: h.Incarnation, nonce: h.Nonce, daemon: h.Daemon, reply: r})
	c.step(budget.HelloReceived{Hello: h})
}

// refuseHello answers a Hello that opens nothing. A second daemon learns which floor to serve,
// under a proof of leadership, because a deposed leader's floors are old.
func (c *coord) refuseHello(e budget.Refuse) {
	hello := c.waitingHello(e.Region, e.Incarnation, e.Nonce)
	answer := hello.reply
	if answer == nil || e.Err != budget.ErrRegionBusy {
		if answer != nil {
			answer(budget.CallFailed{})
		}
		return
	}
	d := c.w.logDelay()
	c.w.After(d/2, func() {
		if !c.leads() || c.dead {
			answer(budget.CallFailed{})
			return
		}
		c.w.After(d-d/2, c.when(func() {
			cfg := told(c.w.ledger.Config)
			answer(budget.CallFailed{
				Busy: true, Wait: !c.machine.Vouches(e.Region, hello.daemon), Config: &cfg, Self: e.Region, InitialRedisEpoch: cfg.Regions[e.Region].InitialRedisEpoch,
				Others: c.machine.Beside(e.Region, hello.daemon, c.now()), Epoch: c.machine.Epoch(),
			})
		}))
	})
}

// waitingHello returns a Hello that waits.
func (c *coord) waitingHello(region int, incarnation, nonce uint64) helloWait {
	waits := c.hellos[region]
	found := slices.IndexFunc(waits, func(h helloWait) bool { return h.incarnation == incarnation && h.nonce == nonce })
	if found < 0 {
		c.w.violate("coordinator %d answers a Hello of region %d that does not wait", c.name, region)
		return helloWait{}
	}
	r := waits[found]
	c.hellos[region] = append(waits[:found:found], waits[found+1:]...)
	return r
}

// told returns the configuration as a region gets it: each floor is the told floor.
func told(c budget.Config) budget.Config {
	c.Regions = slices.Clone(c.Regions)
	for i := range c.Regions {
		c.Regions[i].Floor = c.Regions[i].Told
	}
	return c
}
