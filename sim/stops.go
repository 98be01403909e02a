package sim

import (
	"aliquot/budget"
	"aliquot/sim/shell"
)

// A virtual machine may be paused, with the region's daemons and their store on it, and come
// back with clocks that stood still. No clock of the region tells of it; the leader's does,
// in its next answer.

// unseen is what a daemon cannot know yet: that its lease, which ends at an instant of its
// clock, was over at a true time, by a clock that had not stood still. What it spends from
// then on under that lease is not held against it, until it has an answer of the leader that
// it had heard before to a call that it made after it came back, at another true time. The
// zero value is nothing.
type unseen struct {
	over, back int64
	until      budget.Instant
	leader     uint64
}

// stopClocks has a region's machine stand still for a while, and its clocks with it.
func (w *world) stopClocks(region int, d int64) {
	s := w.stores[region]
	for _, n := range w.nodes {
		if n.region != region {
			continue
		}
		if r := n.machine.Right(budget.KeyID{}, budget.KeyLimit{}, n.now()); r.Phase == budget.Live {
			over := n.clock.Reaches(int64(r.Until))
			if n.forgiven(); n.unseen.over != 0 {
				over = min(over, n.unseen.over)
			}
			n.unseen = unseen{over: over, back: w.now + d, until: r.Until, leader: n.heard}
		}
		n.clock.Stop(w.now, d)
		n.readAt = -1
		n.pause(d)
	}
	s.clock.Stop(w.now, d)
	s.pauseTo = w.now + d
}

// turnClocks has a region's clocks, or the leader's, run at other rates that rho allows.
func (w *world) turnClocks(region int) {
	rate := func() int64 {
		return w.between(shell.Slowest(w.cfg.RhoPPM), shell.Fastest(w.cfg.RhoPPM)+1)
	}
	for _, n := range w.nodes {
		if n.region == region && !n.paused() {
			n.clock.Run(w.now, rate())
			n.readAt = -1
		}
	}
	if s := w.stores[region]; !w.clocksAgree && w.now >= s.pauseTo {
		s.clock.Run(w.now, rate())
	}
	if w.leader != nil {
		w.leader.clock.Run(w.now, rate())
	}
}

// compare takes what a coordinator's clock showed, microseconds, in the answer to the call
// under way.
func (n *node) compare(other int64, ev budget.RegionEvent) {
	var leader uint64
	switch e := ev.(type) {
	case budget.HelloAnswered:
		leader = e.OK.Epoch
	case budget.DirectiveReceived:
		leader = e.Directive.Epoch
	default:
		return
	}
	if n.reference.Read(leader, other, n.sentAt, n.now(), n.w.cfg.RhoPPM) > 0 {
		n.w.note("stood still", n.region, int64(n.name), 0, 0, 0)
		n.step(budget.ClockStopped{})
	}
	if n.sent >= n.unseen.back && leader == n.unseen.leader && leader == n.heard {
		n.unseen = unseen{}
	}
	n.heard = leader
}

// forgiven reports whether a daemon spends by a lease whose end it cannot know.
func (n *node) forgiven() bool {
	if n.unseen.over == 0 {
		return false
	}
	if r := n.machine.Right(budget.KeyID{}, budget.KeyLimit{}, n.now()); r.Phase != budget.Live || r.Until != n.unseen.until {
		n.unseen = unseen{}
	}
	return n.unseen.over != 0 && n.w.now >= n.unseen.over
}

// forgives reports whether what a region spends now is not held against it.
func (w *world) forgives(region int) bool {
	for _, n := range w.nodes {
		if n.region == region && n.forgiven() {
			return true
		}
	}
	return false
}

// counts reports whether a limit of this world counts use: what outlasts its right is not
// forgiven.
func (w *world) counts() bool {
	for _, r := range w.rules {
		if r.book != nil {
			return true
		}
	}
	return false
}

// atStore does something at a region's store after a while, or when its machine runs again.
func (w *world) atStore(region int, after int64, do func()) {
	w.after(after, func() {
		if wait := w.stores[region].pauseTo - w.now; wait > 0 {
			w.after(wait, do)
			return
		}
		do()
	})
}
