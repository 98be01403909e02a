package check

import (
	"time"

	"aliquot/budget"
	"aliquot/internal/sim/check/form"
	"aliquot/internal/sim/check/store"
)

// calls counts the RPCs of one daemon. It does not belong to package budget.
const calls = budget.OtherCounters

// writer writes the canonical forms of worlds. Each goroutine has its own.
type writer struct{ form.Writer }

// key returns the hash of a world's canonical form.
func (x *writer) key(w *world) uint64 {
	x.Canon.Longest = ages(w.sc)
	parts := make([]*form.Form, 0, maxRegions+4)
	for i := range w.sc.Regions {
		s := w.sites[i]
		if s.form == nil {
			w.writeSite(x, s)
			s.form = x.Take()
		}
		parts = append(parts, s.form)
	}
	for _, s := range [...]*seat{w.leads, w.old} {
		if s != nil && s.form == nil {
			w.writeSeat(x, s)
			s.form = x.Take()
		}
		if s != nil {
			parts = append(parts, s.form)
		}
	}
	if w.logForm == nil {
		w.ledger.AppendState(&x.Canon)
		w.logForm = x.Take()
	}
	parts = append(parts, w.logForm)
	w.writeRest(x)
	parts = append(parts, x.Take())
	return x.Hash(parts)
}

// writeRest writes the parts of a world that have no form of their own. It leaves out lonely, which
// is asserted along the path that came first.
func (w *world) writeRest(x *writer) {
	c := &x.Canon
	c.Int(int64(w.want))
	c.Int(int64(w.faults))
	c.Int(int64(w.turns))
	c.Bools(w.leads != nil, w.old != nil)
	c.Int(int64(len(w.up)))
	for i := range w.up {
		m := &w.up[i]
		c.Bools(m.held, m.hello != nil)
		x.caller(m.from)
		c.Epoch(m.to)
		if m.hello != nil {
			c.Hello(m.hello)
		} else {
			c.Report(m.report)
		}
	}
	c.Int(int64(len(w.down)))
	for i := range w.down {
		x.down(&w.down[i])
	}
}

func (x *writer) caller(who caller) {
	c := &x.Canon
	c.Int(int64(who.region))
	c.Incarnation(who.region, who.name)
	c.Other(budget.NameOrder, calls, uint64(who.region), who.name, uint64(who.call))
}

func (x *writer) down(m *downMessage) {
	c := &x.Canon
	c.Bools(m.held)
	x.caller(m.to)
	c.Epoch(m.from)
	switch e := m.ev.(type) {
	case budget.HelloAnswered:
		c.Int(1)
		c.HelloOK(&e.OK)
		c.Config(&e.Config)
		c.String(e.InitialRedisEpoch)
	case budget.DirectiveReceived:
		c.Int(2)
		c.Directive(&e.Directive)
	case budget.CallFailed:
		c.Int(3)
		c.Bools(e.Busy, e.Config != nil)
		if e.Config != nil {
			c.Config(e.Config)
			c.String(e.InitialRedisEpoch)
		}
	}
}

func (w *world) writeSeat(x *writer, s *seat) {
	c := &x.Canon
	s.machine.AppendState(c, s.now(w))
	c.Config(&s.cfg)
	c.Bools(s.pending != nil, s.held, s.due)
	if s.pending != nil {
		c.Plan(s.pending)
	}
	c.Int(int64(s.lasted))
	s.steps.AppendState(c, s.now(w))
	if s == w.old {
		c.Int(int64(s.want))
	}
	for i := range w.sc.Regions {
		waits := &s.waits[i]
		x.caller(waits.report)
		c.Int(int64(len(waits.hellos)))
		for _, h := range waits.hellos {
			x.caller(h.from)
		}
	}
}

func (w *world) writeSite(x *writer, s *site) {
	c, l := &x.Canon, &w.sc.Limit
	now := s.store.Time(w.now)
	s.store.AppendState(&x.Writer, w.now, store.Parts{
		Older:   w.sc.Faults&RollBack != 0,
		Windows: l.Algorithm.Counts() && !l.Algorithm.Logs(),
	}, s.cutUp, s.cutDown)
	c.Config(&s.known.cfg)
	c.String(s.known.initialEpoch)
	c.Epoch(s.known.epoch)
	c.Session(s.latest)
	c.Int(int64(len(s.stuck)))
	for i := range s.stuck {
		x.storeCall(&s.stuck[i], s.region, now)
		if l := s.stuck[i].lend; l != nil {
			for _, n := range s.nodes {
				if n.name == s.stuck[i].name {
					l.trip.AppendState(c, &n.chunk, n.slowNow(w))
				}
			}
		}
	}
	c.Int(int64(len(s.nodes)))
	for _, n := range s.nodes {
		w.writeNode(x, n, now)
	}
}

func (w *world) writeNode(x *writer, n *node, storeNow int64) {
	c := &x.Canon
	c.Lapses = w.writeSince(x, n, storeNow)
	n.machine.AppendState(c, n.now(w))
	x.caller(n.caller())
	c.String(n.epoch)
	x.Age(storeNow - n.birth)
	c.Bools(n.calling, n.askOld, n.cut, n.chunkCalled, n.outdated(w.sites[n.region]))
	if n.calling {
		c.Int(int64(n.waited))
	}
	c.Int(int64(n.applyFault))
	if w.sc.Chunks {
		c.Int(int64(n.chunkFault))
		n.chunk.AppendState(c, n.slowNow(w), storeNow)
	}
}

// writeSince writes the start of the daemon's phase, and reports whether it still matters. It does
// not matter to a record that was used after it. The daemon's map of the store's clock has a sample
// of this quantum. So the map adds only the starts of phases that it remembers, and only the
// present ones of those are used again.
func (w *world) writeSince(x *writer, n *node, storeNow int64) (matters bool) {
	if !n.configured() {
		return false
	}
	c, s := &x.Canon, w.sites[n.region]
	right := n.right(w.sc, w.now)
	since, floorSince := n.clockMap.Pinned(right.Since), n.clockMap.Pinned(right.FloorSince)
	stuck := len(s.stuck) > 0 || w.faults > 0 && w.sc.Faults&Stick != 0 // a delayed command carries it
	matters = w.sc.Faults&RollBack != 0 || right.Phase != budget.Live || stuck || s.store.Get(w.now).At <= since
	c.Bools(matters && since != 0, floorSince != 0)
	if matters && since != 0 {
		x.Age(storeNow - since)
	}
	if floorSince != 0 {
		x.Age(storeNow - floorSince)
	}
	return matters
}

// ages returns the time in which a region takes its floor back and fills any bucket. A longer age
// makes no difference.
func ages(sc *Scenario) time.Duration { return 4*sc.Lease + time.Minute }

func (x *writer) storeCall(s *storeCall, region int, now int64) {
	c := &x.Canon
	c.Incarnation(region, s.name)
	c.String(s.epoch)
	c.Bools(s.heard, s.take != nil, s.gaveUp)
	c.Int(s.deadline - now)
	c.Int(int64(s.age))
	c.Int(int64(len(s.changes)))
	for i := range s.changes {
		ch := &s.changes[i].Change
		x.Packed(ch.Gen)
		x.Bucket(ch.Share)
		c.Int(int64(ch.Grant))
		c.Bools(ch.Cold)
		x.View(&ch.View, now)
	}
	if s.take != nil {
		x.View(s.take, now)
	}
	c.Bools(s.lend != nil)
	if s.lend != nil {
		x.View(&s.lend.view, now)
	}
}
