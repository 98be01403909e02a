package sim

import (
	"aliquot/budget"
	"aliquot/internal/sim/faults"
	"aliquot/internal/sim/site"
)

// reply delivers an answer to the daemon that called.
type reply func(budget.RegionEvent)

// Carry takes a call to the coordinator that the daemon takes for the leader, and its answer back.
// Each way it may be lost, late or repeated.
func (w *world) Carry(n *site.Node, id uint64, m site.Message) {
	fail := n.When(func() { n.Answered(id, nil, budget.CallFailed{}) })
	c, _ := n.Target.(*coord)
	if c == nil || c.dead {
		c = w.anyCoord()
	}
	if c == nil {
		w.Plan(w.Between(milli, 50*milli), fail)
		return
	}
	n.Target = c
	back := func(ev budget.RegionEvent) {
		version, shows := w.versionFor(n.Region, c.version), c.clock.Micros(w.Now())
		_, opens := ev.(budget.HelloAnswered)
		kept := opens && w.places[n.Region].HeldBy(m.Place, m.Hello.Incarnation)
		for range w.copies(n.Cut || w.cutDown[n.Region] || c.cutOff[n.Region]) {
			w.Plan(w.delay(n.Region), n.When(func() { n.Arrived(id, c, ev, version, shows, kept) }))
		}
	}
	for range w.copies(n.Cut || w.cutUp[n.Region] || c.cutOff[n.Region]) {
		w.After(w.delay(n.Region), func() {
			if c.dead {
				w.Plan(w.delay(n.Region), fail)
				return
			}
			c.when(func() { c.deliver(m, back) })()
		})
	}
}

// deliver passes a call to the coordinator.
func (c *coord) deliver(m site.Message, r reply) {
	if m.Hello != nil {
		if !c.claimPlace(m) {
			r(budget.CallFailed{})
			return
		}
		c.hello(*m.Hello, r)
	} else {
		c.report(*m.Report, r)
	}
}

// copies returns how often a message arrives.
func (w *world) copies(cut bool) int {
	switch {
	case cut || w.Faults.Strikes(faults.Loss, 20):
		return 0
	case w.Faults.Strikes(faults.Duplicates, 20):
		return 2
	default:
		return 1
	}
}

// delay returns the delay of one way between a region and the coordinators.
func (w *world) delay(region int) int64 {
	d := w.oneWay[region]
	if w.opts.Calm {
		return d
	}
	d += w.Between(0, d/4+milli/5)
	if w.Faults.Strikes(faults.Reordering, 20) {
		d += w.Between(0, 200*milli)
	}
	if w.Faults.Strikes(faults.Duplicates, 200) {
		d += w.Between(0, 20*second) // long after
	}
	return d
}

// anyCoord returns a coordinator that answers: mostly the leader, otherwise an earlier one.
func (w *world) anyCoord() *coord {
	var alive []*coord
	for _, c := range w.coords {
		if !c.dead {
			if c == w.leader && w.Chance(3, 4) {
				return c
			}
			alive = append(alive, c)
		}
	}
	if len(alive) == 0 {
		return nil
	}
	return alive[w.Rand.IntN(len(alive))]
}
