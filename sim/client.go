package sim

import (
	"fmt"

	"aliquot/budget"
	"aliquot/limit"
)

// client is one key's caller, in all regions.
type client struct {
	w     *world
	index int // in the world's clients
	key   budget.KeyID
	limit limit.Limit
	// elastic: every region may save up a burst of the whole capacity.
	elastic bool
	// placement is what the key's rule asks for.
	placement budget.Placement
	ideal     ideal
	got       []limit.Tokens // by region: what was admitted there

	mode    mode
	home    int
	rates   []int64 // by region, micro-tokens a second (steady)
	due     []int64 // by region, what has not been asked yet
	cost    limit.Tokens
	changes int64 // when the mode changes
	every   int64
	pause   int64 // between bursts (pulsing)
	pauseTo int64
	// suspect: what is enforced of the key may have grown.
	suspect bool
}

// mode is how a client behaves.
type mode int

const (
	greedy   mode = iota // everything, everywhere, at once
	rotating             // everything, one region after the other
	single               // everything, in one region
	pulsing              // everything, everywhere, for a moment; then nothing for a while
	steady               // a rate of its own in each region
	idle
	modes
)

func (w *world) newClient(i int) *client {
	caps := [...]int64{3, 10, 30, 60, 300, 1000}
	c := &client{w: w, index: i, key: budget.KeyID{Rule: uint32(i + 1)}, cost: limit.Token}
	c.key.Hash[0] = byte(i)
	c.limit.Capacity = limit.Token * limit.Tokens(caps[w.rand.IntN(len(caps))])
	seconds := w.between(1, 20)
	c.limit.Rate.Micro = max(int64(c.limit.Capacity)/seconds, million)
	c.elastic = w.chance(1, 2)
	if w.chance(1, 4) {
		c.placement = budget.PlacementSplit
		if w.chance(1, 2) {
			c.placement = budget.PlacementHome
		}
	}
	if w.opts.Limit.Capacity > 0 {
		c.limit, c.elastic, c.placement = w.opts.Limit, w.opts.Elastic, budget.PlacementAuto
	}
	if d := w.opts.driven; d != nil {
		c.limit, c.elastic = d.Keys[i].Limit, d.Keys[i].Elastic
	}
	n, bursts := len(w.stores), 1
	if c.elastic {
		bursts = len(w.ledger.Config.Regions)
	}
	c.rates, c.due, c.got = make([]int64, n), make([]int64, n), make([]limit.Tokens, n)
	c.ideal = newIdeal(c.limit, w.cfg.RhoPPM, n, bursts)
	c.every = w.between(10*milli, 60*milli)
	if w.opts.Calm {
		c.every = 10 * milli
	}
	return c
}

// clientOf is the client of a key.
func (w *world) clientOf(k budget.KeyID) *client { return w.clients[k.Rule-1] }

// live is the client's loop.
func (c *client) live() {
	if c.w.now >= c.changes {
		c.change()
	}
	c.act()
	c.w.after(c.every, c.live)
}

// change draws another behaviour.
func (c *client) change() {
	w := c.w
	c.changes = w.now + w.exponential(12*second)
	if w.opts.Mode != nil {
		c.mode, c.home, c.pause = w.opts.Mode.mode, w.opts.Mode.home, c.fills()
		c.changes = w.now + second
		return
	}
	c.mode, c.home = mode(w.rand.IntN(int(modes))), w.rand.IntN(len(w.stores))
	c.cost = limit.Token
	if w.chance(1, 4) && c.limit.Capacity >= 30*limit.Token {
		c.cost = limit.Token * limit.Tokens(w.between(1, 6))
	}
	for i := range c.rates {
		c.rates[i] = 0
		if w.chance(1, 2) {
			c.rates[i] = w.between(0, 2*c.limit.Rate.Micro)
		}
	}
	if c.mode == pulsing {
		c.pause = c.fills()
		if w.chance(1, 2) {
			c.pause = max(c.pause*w.between(1, int64(len(w.stores))+1), 12*second) // long enough to cool down
		}
		c.changes += w.exponential(4 * c.pause)
	}
	if c.mode == idle && w.chance(1, 2) {
		c.changes += w.between(10*second, 40*second) // long enough to cool down
	}
	w.note("client changes", int(c.key.Rule), int64(c.mode), int64(c.home), int64(c.cost/limit.Token), 0)
}

func (c *client) act() {
	all := int(c.limit.Capacity/c.cost) + 1
	switch c.mode {
	case greedy:
		for i := range c.due {
			c.ask(i, all)
		}
	case pulsing:
		c.pulse(all)
	case rotating:
		c.home = (c.home + 1) % len(c.due)
		c.ask(c.home, all)
	case single:
		c.ask(c.home, all)
	case steady:
		for i, rate := range c.rates {
			c.due[i] += rate / 1000 * (c.every / milli)
			n := c.due[i] / int64(c.cost)
			c.due[i] -= n * int64(c.cost)
			c.ask(i, int(n))
		}
	}
}

// pulse asks for everything for up to half a second, and then waits until a bucket
// has filled.
func (c *client) pulse(all int) {
	switch now := c.w.now; {
	case now < c.pauseTo-c.pause:
		for i := range c.due {
			c.ask(i, all)
		}
	case now >= c.pauseTo:
		c.pauseTo = now + c.pause + c.w.between(0, 500*milli)
	}
}

// fills is how long the limit takes to earn a burst.
func (c *client) fills() int64 { return int64(c.limit.Capacity) * second / c.limit.Rate.Micro }

// burst words what the limit may admit at once.
func (c *client) burst() string {
	if c.elastic {
		return fmt.Sprintf("%d C", c.ideal.most/second/int64(c.limit.Capacity))
	}
	return "C"
}

// ask sends requests to a daemon of the region.
func (c *client) ask(region, tries int) {
	nodes := 0
	var chosen *node
	for _, n := range c.w.nodes {
		if n.region != region {
			continue
		}
		if nodes++; nodes == 1 || c.w.chance(1, nodes) {
			chosen = n
		}
	}
	if chosen != nil {
		chosen.take(c, tries, c.cost, nil)
	}
}
