package check

import (
	"time"

	"aliquot/budget"
)

// do applies an event and asserts what holds in every state.
func (w *world) do(e event) {
	if w.told != nil {
		text := w.words(e)
		defer func() { w.told(text) }()
	}
	if e.fault() {
		w.faults--
		w.lonely = 0
	}
	a, b := int(e.a), int(e.b)
	switch e.kind {
	case passes:
		if int8(e.a) != w.want {
			w.turns--
		}
		w.pass(int8(e.a))
	case allUp:
		w.deliverAllUp()
	case allDown:
		w.deliverAllDown()
	case oneUp:
		w.deliverUp(a)
	case oneDown:
		w.deliverDown(a)
	case commits:
		w.commit()
	case plans:
		w.plan(w.leads)
	case heals:
		s := w.site(a)
		s.cutUp, s.cutDown = false, false
	case elects:
		w.elect()
	case arrivesA:
		w.arrive(a, b)
	case advances:
		w.advance()
	case renews, returns:
		w.site(a).nodes[b].borrow(w, e.kind == renews, e.kind == returns)
	case losesUp:
		w.up = without(w.up, a)
	case losesDown:
		w.down = without(w.down, a)
	case holdsUp, holdsDown:
		w.hold(e.kind == holdsUp, a)
	case repeatsUp:
		m := w.up[a]
		m.held = true
		w.deliverUp(a)
		w.call(m)
	case repeatsDown:
		m := w.down[a]
		m.held = true
		w.deliverDown(a)
		w.send(m)
	case holdsCommit:
		w.seat(w.leads.epoch).held = true
	case leaderDies, leaderGone, leaderLinger:
		w.loseLeader(e.kind, e.a == 1)
	case reweighs, drains, retimes:
		w.operate(e.kind, a)
	default:
		w.regionFault(e.kind, a, b)
	}
	w.check()
}

// hold delays a message until time has passed.
func (w *world) hold(up bool, i int) {
	if up {
		m := w.up[i]
		m.held = true
		w.up = without(w.up, i)
		w.call(m)
		return
	}
	m := w.down[i]
	m.held = true
	w.down = without(w.down, i)
	w.send(m)
}

func (w *world) loseLeader(k kind, applied bool) {
	s := w.depose(applied)
	if k == leaderLinger {
		s.pending = nil
		w.old, w.mineOld = s, true
	} else {
		w.dies(s)
	}
	if k != leaderGone {
		w.elect()
	}
}

func (w *world) deliverUp(i int) {
	m := w.up[i]
	w.up = without(w.up, i)
	w.deliver(m)
}

func (w *world) deliverDown(i int) {
	m := w.down[i]
	w.down = without(w.down, i)
	if n := w.node(m.to.region, m.to.name); n != nil {
		n.answered(w, m)
	}
}

func (w *world) plan(s *seat) {
	s = w.seat(s.epoch)
	s.due = false
	w.step(s, budget.Tick{})
}

func (w *world) deliverAllUp() {
	for i := 0; i < len(w.up); {
		if w.up[i].held {
			i++
		} else {
			w.deliverUp(i)
		}
	}
	for _, s := range [...]*seat{w.leads, w.old} {
		if s != nil && s.due {
			w.plan(s)
		}
	}
}

func (w *world) deliverAllDown() {
	if w.leads != nil && w.leads.pending != nil && !w.leads.held {
		w.commit()
	}
	for i := 0; i < len(w.down); {
		if w.down[i].held {
			i++
		} else {
			w.deliverDown(i)
		}
	}
}

func (w *world) regionFault(k kind, region, b int) {
	s := w.site(region)
	switch k {
	case asksOld:
		s.nodes[0].askOld = true
	case restarts, forgets:
		w.replace(s.nodes[b], k == restarts)
	case doubles:
		s.nodes[0].cut = b == 1
		w.start(region, true)
	case flushes:
		s.store.Flush()
	case rollsBack:
		s.store.RollBack()
	case cuts:
		s.cutUp, s.cutDown = b&1 != 0, b&2 != 0
		w.cutOff(region)
	case applySticks:
		s.nodes[0].applyFault = storeSticks
	case applyMute:
		s.nodes[0].applyFault = storeMute
	case lendSticks:
		s.nodes[b].chunkFault = storeSticks
	case lendMute:
		s.nodes[b].chunkFault = storeMute
	case takeSticks:
		n := s.nodes[b]
		v := n.view(n.right(w.sc, w.now), w.sc, &n.clockMap)
		s.stuck = append(s.stuck, storeCall{
			name: n.name, epoch: n.epoch, take: &v, deadline: n.clockMap.Until(n.now(w).Add(takeLate)),
		})
	default:
		panic("check: unknown event")
	}
}

// cutOff drops a region's messages in flight.
func (w *world) cutOff(region int) {
	s := w.sites[region]
	for i := 0; i < len(w.up); {
		if s.cutUp && w.up[i].from.region == region && !w.up[i].held {
			w.up = without(w.up, i)
		} else {
			i++
		}
	}
	for i := 0; i < len(w.down); {
		if s.cutDown && w.down[i].to.region == region && !w.down[i].held {
			w.down = without(w.down, i)
		} else {
			i++
		}
	}
}

// quietly lets n quanta pass in which nothing fails. It is for roots and recoveries.
func (w *world) quietly(want int8, n int) {
	for range n {
		if w.broken != "" {
			return
		}
		w.do(event{passes, uint8(want), 0})
		w.settle()
		if _, ready := w.progress(); ready {
			w.do(event{advances, 0, 0})
			w.settle()
		}
	}
}

// settle delivers all messages in flight.
func (w *world) settle() {
	for w.broken == "" {
		up, down := w.ready()
		switch {
		case len(up) > 0:
			w.do(event{allUp, 0, 0})
		case len(down) > 0 || w.leads != nil && w.leads.pending != nil && !w.leads.held:
			w.do(event{allDown, 0, 0})
		default:
			return
		}
	}
}

// until lets quanta pass until ok returns true. It reports a violation if that takes too long.
func (w *world) until(what string, want int8, within time.Duration, ok func() bool) {
	for t := time.Duration(0); !ok(); t += w.sc.Quantum {
		if t > within {
			w.violate("%s: not within %v", what, within)
		}
		if w.broken != "" {
			return
		}
		w.quietly(want, 1)
	}
}
