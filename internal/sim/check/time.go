package check

import "aliquot/budget"

// How long a daemon and a deposed leader wait, in quanta.
const (
	callPatience  = 2
	applyPatience = 2
	lingers       = 8
	// stuckFor is for how long a delayed command may still arrive.
	stuckFor = 4
)

// pass lets a quantum pass. Clocks advance, regions with demand spend, every state machine is
// ticked, and what was delayed arrives.
func (w *world) pass(want int8) {
	w.checkBetween()
	w.countLonely()
	if want != w.want {
		w.want, w.lonely = want, 0
	}
	w.now += int64(w.sc.Quantum)
	w.ideal = min(w.ideal+w.sc.earned(int64(w.sc.Quantum)), w.sc.most())
	w.unhold()
	for i := range w.sc.Regions {
		w.passAt(w.site(i))
	}
	for _, s := range [...]*seat{w.leads, w.old} {
		if s != nil {
			s = w.seat(s.epoch)
			s.due = false
			w.step(s, budget.Tick{})
		}
	}
	if w.leads != nil {
		w.leads.steps.Due(w.leads.machine, w.leads.now(w)) // it records since when everything is in force
	}
	if w.old != nil {
		if s := w.seat(w.old.epoch); s.lasted >= lingers {
			w.old, w.mineOld = nil, false
			w.dies(s)
		} else {
			s.lasted++
		}
	}
}

// unhold lets delayed messages arrive.
func (w *world) unhold() {
	up, down := make([]upMessage, len(w.up)), make([]downMessage, len(w.down))
	copy(up, w.up)
	copy(down, w.down)
	for i := range up {
		up[i].held = false
	}
	for i := range down {
		down[i].held = false
	}
	w.up, w.down = up, down
	if w.leads != nil && w.leads.held {
		w.seat(w.leads.epoch).held = false
	}
}

func (w *world) passAt(s *site) {
	s.store.Forget(&w.sc.Limit, w.now)
	w.giveUp(s)
	for _, n := range s.nodes {
		n.probe(w)
	}
	for _, n := range s.nodes {
		n.chunkCalled = false
		if w.sc.spends(w.want, s.region) {
			if w.sc.Chunks {
				n.spendChunk(w)
				n.borrow(w, false, false)
			}
			n.spend(w)
		}
	}
	for _, n := range s.nodes {
		n.tick(w)
	}
}

// giveUp lets daemons give up on store calls without a reply. Such a call may still arrive.
func (w *world) giveUp(s *site) {
	stuck := s.stuck
	s.stuck = nil
	for _, c := range stuck {
		c.age++
		if c.lend != nil && !c.gaveUp {
			c.gaveUp = true
			if n := w.node(s.region, c.name); n != nil {
				n.chunk.Fail(c.lend.trip)
			}
		}
		if c.take == nil && c.lend == nil && !c.gaveUp && c.age >= applyPatience {
			c.gaveUp = true
			if n := w.node(s.region, c.name); n != nil {
				n.step(w, budget.SharesApplied{Results: c.failed()})
			}
		}
		if c.age <= stuckFor && !(c.gaveUp && c.made()) {
			s.stuck = append(s.stuck, c)
		}
	}
}

// tick gives up on a call that was not answered, and lets the state machine act.
func (n *node) tick(w *world) {
	if n.calling {
		n.waited++
		if n.waited >= callPatience {
			n.calling, n.askOld = false, false
			n.step(w, budget.CallFailed{})
		}
	}
	n.step(w, budget.RegionTick{})
}

// arrive lets a delayed command reach its store.
func (w *world) arrive(region, i int) {
	s := w.site(region)
	c := s.stuck[i]
	n := w.node(region, c.name)
	if c.take != nil {
		s.stuck = without(s.stuck, i)
		if s.store.Time(w.now) <= c.deadline {
			admitted, _, _ := s.store.Take(c.epoch, *c.take, w.now)
			w.admit(admitted)
		}
		return
	}
	if c.lend != nil {
		s.stuck = without(s.stuck, i)
		w.arriveLate(s, n, &c)
		return
	}
	results, ok := s.store.Apply(c.epoch, c.changes, c.heard, w.now)
	s.stuck = without(s.stuck, i)
	if c.gaveUp || n == nil {
		return
	}
	if !ok {
		results = c.failed()
	}
	n.step(w, budget.SharesApplied{Results: results})
}

// countLonely counts the quanta in which nothing has failed, no other leader has led and want has
// not changed. A step of a change makes a new leader too: sessions open again.
func (w *world) countLonely() {
	if !w.calm() || w.unnoticed() {
		w.lonely = 0
		return
	}
	w.lonely = min(w.lonely+1, convergeIn)
	if w.lonely == convergeIn && !w.sc.Limit.Algorithm.Counts() { // use outlasts a share
		w.checkGrown()
	}
}
