package sim

import (
	"math"

	"aliquot/internal/sim/site"
)

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

// Coordinated reports whether any coordinator runs.
func (w *world) Coordinated() bool { return len(w.coords) > 0 }

// Replace kills a daemon and starts another in its place.
func (w *world) Replace(n *site.Node, after int64) {
	if n == nil {
		return
	}
	w.Kill(n)
	withFile := w.Chance(3, 4)
	w.After(after, func() {
		switch {
		case w.NodeOf(n.Region) != nil:
		case withFile && n.Left() != nil:
			w.Return(n.Region, n.Left())
		default:
			w.StartNode(n.Region, withFile, n.ID())
		}
	})
}

// doubleUp starts a second daemon of a region on the same store. The first one continues for a
// while, with or without a way to the coordinators, often for longer than it takes to count as cut
// off.
func (w *world) doubleUp(n *site.Node) {
	if n == nil {
		return
	}
	w.Note("second daemon", n.Region, int64(n.Name), 0, 0, 0)
	n.Cut = w.Chance(1, 2)
	w.StartNode(n.Region, w.Chance(3, 4), 0)
	w.After(w.Between(second, 60*second), func() {
		if n.Dead || w.Faults.Over() {
			return // or the other daemon has died, and this one was the last when trouble ended
		}
		w.Kill(n)
		if w.NodeOf(n.Region) == nil {
			w.StartNode(n.Region, true, n.ID())
		}
	})
}

// copyStores makes an older copy of every store available.
func (w *world) copyStores() {
	for _, s := range w.Stores {
		if w.Chance(1, 4) {
			s.CopyAway()
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
	for i := range w.Stores {
		w.cutUp[i], w.cutDown[i], w.Stuck[i] = false, false, 0
		for n := w.Oldest(i); n != nil; n = w.Oldest(i) {
			w.Kill(n)
		}
		if i >= len(w.ledger.Config.Regions) || w.ledger.Config.Regions[i].Fenced {
			continue
		}
		w.Buried[i] = false // if it was, no daemon heard the operator
		if w.NodeOf(i) == nil {
			w.StartNode(i, true, 0)
		}
	}
	for _, n := range w.Nodes {
		n.Heal()
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
	w.Stores[region].SetClock(d)
	for _, r := range w.Rules {
		if r.Book != nil {
			r.Book.ClockSet(region, d)
			continue
		}
		r.Ideal.ClockSet(region, d, w.Now())
	}
	w.SuspectAll()
}
