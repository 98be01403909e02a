package sim

import "math"

// linger elects a new leader while the old one continues, cut off from the log.
func (w *world) linger() {
	c := w.leader
	if c == nil {
		return
	}
	w.Note("leader deposed", c.name, 0, 0, 0, 0)
	w.depose()
	w.After(w.Between(second, 60*second), c.when(c.stop))
	w.electSoon(w.Between(0, 4*second))
}

func (w *world) electSoon(d int64) {
	w.After(d, func() {
		if w.leader == nil {
			w.elect()
		}
	})
}

// replace kills a daemon and starts another in its place.
func (w *world) replace(n *node, after int64) {
	if n == nil {
		return
	}
	w.kill(n)
	withFile := w.Chance(3, 4)
	w.After(after, func() {
		if w.nodeOf(n.region) == nil {
			w.startNode(n.region, withFile, n.id())
		}
	})
}

func (w *world) kill(n *node) {
	w.Note("daemon dies", n.region, int64(n.name), 0, 0, 0)
	n.dead = true
	n.forgiveDebts()
	for i, other := range w.nodes {
		if other == n {
			w.nodes = append(w.nodes[:i:i], w.nodes[i+1:]...)
			return
		}
	}
}

// doubleUp starts a second daemon of a region on the same store. The first one continues for a
// while, with or without a way to the coordinators, often for longer than it takes to count as cut
// off.
func (w *world) doubleUp(n *node) {
	if n == nil {
		return
	}
	w.Note("second daemon", n.region, int64(n.name), 0, 0, 0)
	n.cut = w.Chance(1, 2)
	w.startNode(n.region, w.Chance(3, 4), 0)
	w.After(w.Between(second, 60*second), func() {
		if n.dead || w.faults.Over() {
			return // or the other daemon has died, and this one was the last when trouble ended
		}
		w.kill(n)
		if w.nodeOf(n.region) == nil {
			w.startNode(n.region, true, n.id())
		}
	})
}

// pause stops a daemon for a while. Its clock continues.
func (n *node) pause(d int64) {
	n.pauseTo = n.w.Now() + d
	n.w.After(d, n.w.suspectAll)
}

// copyStores makes an older copy of every store available.
func (w *world) copyStores() {
	for _, s := range w.stores {
		if w.Chance(1, 4) {
			s.copyAway()
		}
	}
	w.After(5*second, w.copyStores)
}

// heal ends all trouble.
func (w *world) heal() {
	for _, c := range w.clients {
		if r := c.rule(); r.Gone != 0 {
			w.remakeRule(r)
		}
	}
	for i := range w.stores {
		w.cutUp[i], w.cutDown[i], w.stuck[i] = false, false, 0
		for n := w.oldest(i); n != nil; n = w.oldest(i) {
			w.kill(n)
		}
		if i >= len(w.ledger.Config.Regions) || w.ledger.Config.Regions[i].Fenced {
			continue
		}
		w.buried[i] = false // if it was, no daemon heard the operator
		if w.nodeOf(i) == nil {
			w.startNode(i, true, 0)
		}
	}
	for _, n := range w.nodes {
		n.cut, n.pauseTo, n.storeCutTo = false, min(n.pauseTo, w.Now()), 0
	}
	for _, c := range w.coords {
		clear(c.cutOff)
		c.pauseTo = min(c.pauseTo, w.Now())
	}
	for len(w.coords) > 0 && w.coords[0] != w.leader {
		w.coords[0].stop()
	}
	for len(w.coords) > 1 {
		w.coords[1].stop()
	}
	if w.leader == nil {
		w.elect()
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// stepClock sets a store's clock, forward or back, by a millisecond to an hour.
func (w *world) stepClock(region int) {
	const hour = 3600 * second
	d := int64(float64(milli) * math.Pow(float64(hour/milli), w.Rand.Float64()))
	if w.Chance(1, 2) {
		d = -d
	}
	w.stores[region].clock.Offset += d
	if d < 0 {
		w.stores[region].setBack = w.Now()
	}
	for _, r := range w.rules {
		if r.Book != nil {
			r.Book.ClockSet(region, d)
			continue
		}
		r.Ideal.ClockSet(region, d, w.Now())
	}
	w.suspectAll()
}
