package site

import (
	"aliquot/budget"
	"aliquot/internal/sim/shell"
)

// A virtual machine may be paused, with the region's daemons and their store on it, and continue
// with clocks that were stopped. No clock of the region reveals it. The leader's clock does, in its
// next answer.

// unseen is a stop that a daemon cannot know of yet: its clock was stopped while it measured its
// lease. The oracle allows what the daemon spends by that lease after the lease's true end. The
// daemon can know as soon as it has an answer to a call that it made after it continued, from the
// leader that it had heard before. An answer that was in flight during the stop reveals nothing,
// and may renew the lease, which counts from the sending of its call. The zero value is nothing.
type unseen struct {
	stops  []clockStop // the earliest first
	back   int64       // true time at which the host ran again
	leader uint64
}

// clockStop is a daemon's clock as it would have continued, with its reading when it was stopped.
type clockStop struct {
	clock   shell.Clock
	reading budget.Instant
}

// over returns the true time at which a lease was over that began with a call sent at an instant
// and ends at another; 0 if the clock was not stopped since the call.
func (u *unseen) over(sent, ends budget.Instant) int64 {
	for _, s := range u.stops {
		if sent <= s.reading {
			return s.clock.Reaches(int64(ends))
		}
	}
	return 0
}

// StopClocks stops a region's host for a while, and its clocks with it.
func (w *Regions) StopClocks(region int, d int64) {
	s := w.Stores[region]
	for _, n := range w.Nodes {
		if n.Region != region {
			continue
		}
		n.unseen.stops = append(n.unseen.stops, clockStop{clock: n.clock, reading: n.Now()})
		n.unseen.back, n.unseen.leader = w.Now()+d, n.heard
		n.clock.Stop(w.Now(), d)
		n.readAt = -1
		n.Pause(d)
	}
	s.clock.Stop(w.Now(), d)
	s.pauseTo = w.Now() + d
}

// TurnClocks changes the rates of a region's clocks, within rho.
func (w *Regions) TurnClocks(region int) {
	for _, n := range w.Nodes {
		if n.Region == region && !n.paused() {
			n.clock.Run(w.Now(), w.DrawRate())
			n.readAt = -1
		}
	}
	if s := w.Stores[region]; !w.ClocksAgree && w.Now() >= s.pauseTo {
		s.clock.Run(w.Now(), w.DrawRate())
	}
}

// DrawRate draws the rate of a clock.
func (w *Regions) DrawRate() int64 {
	return w.Between(shell.Slowest(w.Config.RhoPPM), shell.Fastest(w.Config.RhoPPM)+1)
}

// compare processes what a coordinator's clock showed, in microseconds, in the answer to the call
// in flight.
func (n *Node) compare(other int64, ev budget.RegionEvent) {
	var leader uint64
	switch e := ev.(type) {
	case budget.HelloAnswered:
		leader = e.OK.Epoch
	case budget.DirectiveReceived:
		leader = e.Directive.Epoch
	default:
		return
	}
	if n.reference.Read(leader, other, n.sentAt, n.Now(), n.w.Config.RhoPPM) > 0 {
		n.w.Note("clocks stopped", n.Region, int64(n.Name), 0, 0, 0)
		n.step(budget.ClockStopped{})
	}
	if n.sent >= n.unseen.back && leader == n.unseen.leader && leader == n.heard {
		n.unseen = unseen{}
	}
	n.heard = leader
}

// forgiven reports whether a daemon spends by a lease whose end it cannot know.
func (n *Node) forgiven() bool {
	if len(n.unseen.stops) == 0 {
		return false
	}
	r := n.Machine.Right(budget.KeyID{}, budget.KeyLimit{}, n.Now())
	if r.Phase != budget.Live {
		return false
	}
	over := n.unseen.over(r.Until.Add(-n.Machine.Config().Lease), r.Until)
	return over != 0 && n.w.Now() >= over
}

// Forgives reports whether the oracle allows what a region spends now.
func (w *Regions) Forgives(region int) bool {
	for _, n := range w.Nodes {
		if n.Region == region && n.forgiven() {
			return true
		}
	}
	return false
}

// Counts reports whether this world has a counting limit. Use that outlasts its right is not
// allowed.
func (w *Regions) Counts() bool {
	for _, r := range w.Rules {
		if r.Book != nil {
			return true
		}
	}
	return false
}

// atStore calls do at a region's store after a while, or when its host runs again.
func (w *Regions) atStore(region int, after int64, do func()) {
	w.After(after, func() {
		if wait := w.Stores[region].pauseTo - w.Now(); wait > 0 {
			w.After(wait, do)
			return
		}
		do()
	})
}
