package sim

import (
	"time"

	"aliquot/budget"
	"aliquot/internal/sim/faults"
	"aliquot/internal/sim/rule"
	"aliquot/internal/sim/site"
	"aliquot/limit"
)

// client is one caller, in all regions.
type client struct {
	w     *world
	first *rule.Rule // the rule that applied to it at the beginning
	// also is another client whose limit this one's requests count against as well; nil: none.
	also *client

	mode    mode
	home    int
	rates   []int64 // by region, micro-tokens a second (steady)
	due     []int64 // by region, what has not been requested yet
	cost    limit.Tokens
	changes int64 // when the mode changes
	every   int64
	pause   int64 // between bursts (pulsing)
	pauseTo int64

	// held are the rules by the version heldBy, which was used last.
	held   []*rule.Rule
	heldBy uint64
}

// mode is how a client behaves.
type mode int

const (
	greedy   mode = iota // everything, everywhere, at once
	rotating             // everything, one region after the other
	single               // everything, in one region
	pulsing              // everything, everywhere, for a moment; then nothing for a while
	steady               // its own rate in each region
	idle
	modes
)

func (w *world) newClient() *client {
	c := &client{w: w, cost: limit.Token}
	l, elastic, placement := w.drawLimit(), w.Chance(1, 2), w.drawPlacement()
	local := w.drawLocal()
	if local && !l.Algorithm.Counts() && l.Capacity <= 30*limit.Token && w.cached.IntN(3) == 0 {
		l.Rate.Micro = int64(l.Capacity) * (2 + w.cached.Int64N(14)) // fills in hardly more than a chunk's life
	}
	if w.opts.Limit.Capacity > 0 {
		l, elastic, placement = w.opts.Limit, w.opts.Elastic, budget.PlacementAuto
	}
	if d := w.opts.driven; d != nil {
		key := d.Keys[len(w.clients)]
		l, elastic, placement, local = key.Limit, key.Elastic, key.Placement, key.Local
	}
	c.first = w.newRule(l, elastic, local, placement, w.version)
	c.rates, c.due = make([]int64, len(w.Stores)), make([]int64, len(w.Stores))
	c.every = w.Between(10*milli, 60*milli)
	if also := w.Rand.IntN(3 * (len(w.clients) + 1)); also < len(w.clients) && !w.opts.Calm {
		c.also = w.clients[also]
	}
	if w.opts.Calm {
		c.every = 10 * milli
	}
	return c
}

// drawLocal draws whether a rule lets its daemons borrow chunks; in a quarter of the worlds none
// does. It does not draw from the world's own numbers, so those worlds stay as they would be
// without chunks.
func (w *world) drawLocal() bool {
	switch w.opts.Local {
	case LocalNowhere:
		return false
	case LocalEverywhere:
		return true
	}
	return w.seed%4 != 0 && w.cached.IntN(4) > 0
}

func (w *world) drawPlacement() budget.Placement {
	if w.Chance(1, 4) {
		if w.Chance(1, 2) {
			return budget.PlacementHome
		}
		return budget.PlacementSplit
	}
	return budget.PlacementAuto
}

// drawLimit draws a limit. Half of them are counting limits, with windows of a second to half a
// minute.
func (w *world) drawLimit() limit.Limit {
	caps := [...]int64{3, 10, 30, 60, 300, 1000}
	l := limit.Limit{Capacity: limit.Token * limit.Tokens(caps[w.Rand.IntN(len(caps))])}
	algorithm, window := w.drawAlgorithm(), time.Duration(w.Between(1, 31))*time.Second
	if w.operated() {
		window = min(window, 4*time.Second) // a change of floors takes several tails
	}
	if algorithm.Counts() {
		l.Algorithm, l.Window = algorithm, window
	} else {
		l.Algorithm, l.Rate.Micro = algorithm, max(int64(l.Capacity)/w.Between(1, 20), million)
	}
	return l
}

func (w *world) drawAlgorithm() limit.Algorithm {
	if all := w.opts.Algorithms; len(all) > 0 {
		return all[w.Rand.IntN(len(all))]
	}
	if w.Chance(1, 4) {
		return limit.TokenBucket
	}
	all := limit.Algorithms()
	return all[w.Rand.IntN(len(all))]
}

// rule returns the client's rule by the latest rules, or the last one that it had.
func (c *client) rule() *rule.Rule {
	r := c.first
	for r.Next != nil {
		r = r.Next
	}
	return r
}

func (c *client) limit() limit.Limit { return c.rule().Latest() }

// Happen is one turn of the client's loop.
func (c *client) Happen() {
	if c.w.Now() >= c.changes {
		c.change()
	}
	c.act()
	c.w.Plan(c.every*c.turns(), c)
}

// turns returns after how many of its turns the client next does something. When the recovery is
// checked, every client begins to ask.
func (c *client) turns() int64 {
	until := c.changes
	if greedyFrom := c.w.Faults.Until + int64(recovery/2); c.w.Now() < greedyFrom {
		until = min(until, greedyFrom)
	}
	switch now := c.w.Now(); {
	case c.mode == pulsing && now >= c.pauseTo-c.pause:
		until = min(until, c.pauseTo)
	case c.mode != idle:
		until = now
	}
	return max((until-c.w.Now()+c.every-1)/c.every, 1)
}

// change draws another behaviour.
func (c *client) change() {
	w := c.w
	c.changes = w.Now() + w.Exponential(12*second)
	if w.opts.Mode != nil {
		c.mode, c.home, c.pause = w.opts.Mode.mode, w.opts.Mode.home, c.fills()
		c.changes = w.Now() + second
		return
	}
	c.mode, c.home = mode(w.Rand.IntN(int(modes))), w.Rand.IntN(len(w.Stores))
	c.cost = limit.Token
	if w.Chance(1, 4) && c.limit().Capacity >= 30*limit.Token {
		c.cost = limit.Token * limit.Tokens(w.Between(1, 6))
	}
	for i := range c.rates {
		c.rates[i] = 0
		if w.Chance(1, 2) {
			c.rates[i] = w.Between(0, 2*c.limit().PerSecond().Micro)
		}
	}
	if c.mode == pulsing {
		c.pause = c.fills()
		if w.Chance(1, 2) {
			c.pause = max(c.pause*w.Between(1, int64(len(w.Stores))+1), 12*second) // long enough to cool down
		}
		if w.Chance(1, 3) {
			c.pause = w.Between(second, 15*second) // whatever the limit needs to be full
		}
		c.changes += w.Exponential(4 * c.pause)
	}
	if c.mode == idle && w.Chance(1, 2) {
		c.changes += w.Between(10*second, 40*second) // long enough to cool down
	}
	w.Note("client changes", int(c.first.Key.Rule), int64(c.mode), int64(c.home), int64(c.cost/limit.Token), 0)
}

func (c *client) act() {
	all := int(c.limit().Capacity/c.cost) + 1
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

// pulse asks for everything for up to half a second, and then waits until a bucket has filled.
func (c *client) pulse(all int) {
	switch now := c.w.Now(); {
	case now < c.pauseTo-c.pause:
		for i := range c.due {
			c.ask(i, all)
		}
	case now >= c.pauseTo:
		c.pauseTo = now + c.pause + c.w.Between(0, 500*milli)
	}
}

// fills returns how long the limit takes to earn a burst.
func (c *client) fills() int64 {
	l := c.limit()
	return int64(l.Capacity) * second / l.PerSecond().Micro
}

// ask sends requests to a daemon of the region.
func (c *client) ask(region, tries int) {
	nodes := 0
	var chosen *site.Node
	for _, n := range c.w.Nodes {
		if n.Region != region {
			continue
		}
		if nodes++; nodes == 1 || c.w.Chance(1, nodes) {
			chosen = n
		}
	}
	if chosen == nil {
		return
	}
	rules := c.rules(chosen.Version)
	if tries > 1 && c.w.Faults.Has(faults.StuckStore) && c.w.Chance(1, 4) {
		// Of a single request the daemon knows what became of its call.
		for range min(tries, int(c.w.Between(1, 5))) {
			chosen.Take(rules, 1, c.cost, nil)
			tries--
		}
	}
	if tries > 0 {
		chosen.Take(rules, tries, c.cost, nil)
	}
}

// rules returns the client's rules by a version of the rules. A request counts against each of
// them. The rules of one version never change, and neither does the result.
func (c *client) rules(version uint64) []*rule.Rule {
	if c.held == nil || c.heldBy != version {
		c.held, c.heldBy = []*rule.Rule{}, version
		for at := c; at != nil; at = at.also {
			if r := at.first.Under(version); r != nil {
				c.held = append(c.held, r)
			}
		}
	}
	return c.held
}
