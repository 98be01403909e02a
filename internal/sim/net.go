package sim

import (
	"aliquot/budget"
	"aliquot/internal/sim/faults"
)

// callDeadline is when a daemon gives up on a Hello or a Report.
const callDeadline = 2 * second

// reply delivers an answer to the daemon that called.
type reply func(budget.RegionEvent)

// send makes one RPC to the coordinator that the daemon takes for the leader. Each way it may be
// lost, late or repeated. It ends at its deadline.
func (n *node) send(deliver func(*coord, reply)) {
	w := n.w
	n.call++
	n.calling = true
	n.sent, n.sentAt = w.Now(), n.now()
	id := n.call
	n.deadline = w.Now() + callDeadline
	if !n.waiting {
		n.waiting = true
		w.Plan(callDeadline, (*callTimer)(n))
	}
	fail := n.when(func() { n.answered(id, nil, budget.CallFailed{}) })
	c := n.target
	if c == nil || c.dead {
		c = w.anyCoord()
	}
	if c == nil {
		w.After(w.Between(milli, 50*milli), fail)
		return
	}
	n.target = c
	back := func(ev budget.RegionEvent) {
		version, shows := w.versionFor(n.region, c.version), c.clock.Micros(w.Now())
		for range w.copies(n.cut || w.cutDown[n.region] || c.cutOff[n.region]) {
			w.After(w.delay(n.region), n.when(func() {
				n.takeRules(version)
				n.noteEnds()
				if id == n.call && n.calling {
					n.compare(shows, ev)
				}
				n.answered(id, c, ev)
			}))
		}
	}
	for range w.copies(n.cut || w.cutUp[n.region] || c.cutOff[n.region]) {
		w.After(w.delay(n.region), func() {
			if c.dead {
				w.After(w.delay(n.region), fail)
				return
			}
			c.when(func() { deliver(c, back) })()
		})
	}
}

// callTimer is a daemon's deadline of the call in flight. One planned event serves all its calls,
// because most are answered long before.
type callTimer node

func (t *callTimer) Happen() {
	n := (*node)(t)
	n.waiting = false
	switch {
	case n.dead || !n.calling:
	case n.paused():
		n.waiting = true
		n.w.Plan(n.nap(), t)
	case n.w.Now() < n.deadline:
		n.waiting = true
		n.w.Plan(n.deadline-n.w.Now(), t)
	default:
		n.answered(n.call, nil, budget.CallFailed{})
	}
}

// copies returns how often a message arrives.
func (w *world) copies(cut bool) int {
	switch {
	case cut || w.faults.Strikes(faults.Loss, 20):
		return 0
	case w.faults.Strikes(faults.Duplicates, 20):
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
	if w.faults.Strikes(faults.Reordering, 20) {
		d += w.Between(0, 200*milli)
	}
	if w.faults.Strikes(faults.Duplicates, 200) {
		d += w.Between(0, 20*second) // long after
	}
	return d
}

// storeDelay returns the delay from a daemon to its store. A command can be delayed for long.
func (w *world) storeDelay(region int) int64 {
	if w.stuck[region] > w.Now() {
		return w.Between(0, w.stuck[region]-w.Now())
	}
	if w.faults.Strikes(faults.StuckStore, 300) {
		return w.Between(0, 40*second)
	}
	return w.Between(milli/20, milli)
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
