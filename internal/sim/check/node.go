package check

import (
	"fmt"
	"time"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/internal/prefetch"
	"aliquot/internal/sim/check/store"
	"aliquot/internal/sim/shell"
	"aliquot/limit"
)

// Deadlines of store calls. A later call does nothing.
const (
	takeLate      = 500 * time.Millisecond
	applyDeadline = time.Second
)

// node is one daemon of a region: the state machine and the shell around it.
type node struct {
	region   int
	name     uint64 // its incarnation
	clock    shell.Clock
	machine  *budget.Region
	epoch    string // the store's contents, as this daemon knows them
	birth    int64
	clockMap shell.ClockMap

	call    uint32 // number of the latest RPC
	calling bool
	waited  int              // quanta
	askOld  bool             // calls go to the deposed leader
	cut     bool             // no message passes
	last    budget.SessionID // the latest session that the daemon opened; zero: none yet
	// applyFault is the fault of the next store call that changes shares, and chunkFault that of
	// the next call that borrows a chunk.
	applyFault, chunkFault storeFault
	// chunkCalled: the daemon has renewed or returned its chunk since time passed.
	chunkCalled bool

	chunk    prefetch.Key
	validity prefetch.Validity
}

// storeFault is what goes wrong with a call of the store.
type storeFault uint8

const (
	storeFine storeFault = iota
	storeSticks
	storeMute // the call is made, but its reply is lost
)

// start starts a daemon. With a state file it knows the configuration, and which store contents
// started full.
func (w *world) start(region int, withFile bool) {
	s := w.site(region)
	w.names++
	n := &node{
		region: region, name: w.names, clock: w.sc.daemonClock(region),
		clockMap: shell.ClockMap{Rho: int64(w.sc.RhoPPM)},
	}
	n.machine = budget.NewRegion(region, budget.Config{}, n.name, n.now(w))
	if withFile && len(s.known.cfg.Regions) > 0 {
		n.machine.SetConfig(region, s.known.cfg, s.known.initialEpoch, s.known.epoch, n.now(w))
	}
	s.nodes = append(s.nodes, n)
	n.probe(w)
}

func (n *node) clone() *node {
	c := *n
	c.machine = n.machine.Clone()
	return &c
}

func (n *node) now(w *world) budget.Instant { return n.clock.Boot(w.now) }
func (n *node) configured() bool            { return len(n.machine.Config().Regions) > 0 }
func (n *node) caller() caller              { return caller{n.region, n.name, n.call} }

// probe asks the store for the identity of its contents and for its time. If the contents are new,
// a daemon that was not the last to open a session starts again, because nothing in them fences it;
// see package sim.
func (n *node) probe(w *world) {
	s := w.site(n.region)
	epoch, birth := s.store.Learn(w.now)
	if n.epoch != epoch {
		if n.epoch != "" && n.outdated(s) {
			w.replace(n, true)
			return
		}
		n.clockMap.Reset()
		n.epoch, n.birth = epoch, birth
		n.step(w, budget.StoreEpoch{Epoch: epoch})
	}
	n.clockMap.Sample(s.store.Time(w.now), n.now(w), n.now(w))
}

// replace kills a daemon and starts another one.
func (w *world) replace(n *node, withFile bool) {
	s := w.site(n.region)
	for i := range s.nodes {
		if s.nodes[i].name == n.name {
			s.nodes = without(s.nodes, i)
			break
		}
	}
	w.start(n.region, withFile)
}

// view translates the daemon's right at a true time for the store. The clock map must not be shared
// with another right.
func (n *node) view(r budget.Right, sc *Scenario, clock *shell.ClockMap) limit.View {
	d := entitlement.Daemon{
		Region: n.region, Config: n.machine.Config(), Stamp: limit.Stamp(n.epoch), Birth: n.birth,
		StartedFull: n.machine.StoreStartedFull(), Clock: clock, ChunkLife: sc.chunkLife(),
	}
	f := d.Frame(r, sc.Limit.Tail())
	v := f.View(r, sc.Limit, sc.Elastic)
	if sc.spoil != nil {
		sc.spoil(n, &v)
	}
	return v
}

func (n *node) right(sc *Scenario, now int64) budget.Right {
	return n.machine.Right(key, sc.keyLimit(), n.clock.Boot(now))
}

// spend takes all tokens there are, or is denied.
func (n *node) spend(w *world) {
	if !n.configured() {
		return
	}
	s := w.site(n.region)
	v := n.view(n.right(w.sc, w.now), w.sc, &n.clockMap)
	admitted, out, ok := s.store.Take(n.epoch, v, w.now)
	if !ok {
		return // the daemon learns of the new contents with its next probe
	}
	w.admit(admitted)
	if out.Amnesia {
		n.step(w, budget.StoreLost{})
	}
	cost := admitted
	if admitted == 0 {
		cost = limit.Token
	}
	n.machine.Observe(key, budget.Usage{
		Limit: w.sc.keyLimit(), Cost: int64(cost), Admitted: admitted > 0,
		Tokens: int64(max(0, out.Tokens)), FloorCap: int64(v.Floor.Cap), ColdCap: int64(v.Cold().Cap),
	}, n.now(w))
}

// step gives the state machine one event and carries out its effects.
func (n *node) step(w *world, ev budget.RegionEvent) {
	effects := n.machine.Step(ev, n.now(w))
	n.noteSession(w)
	n.revalidateChunk()
	for _, effect := range effects {
		switch e := effect.(type) {
		case budget.SendHello:
			n.send(w, upMessage{hello: &e.Hello})
		case budget.SendReport:
			n.send(w, upMessage{report: &e.Report})
		case budget.ApplyShares:
			n.apply(w, e)
		default:
			panic(fmt.Sprintf("check: unknown effect %T", effect))
		}
	}
}

// send makes one call to the coordinator that the daemon takes for the leader.
func (n *node) send(w *world, m upMessage) {
	n.call++
	n.calling, n.waited = true, 0
	m.from = n.caller()
	switch {
	case n.askOld && w.old != nil:
		m.to = w.old.epoch
	case w.leads != nil:
		m.to = w.leads.epoch
	default:
		return // there is no answer, so the call fails at its deadline
	}
	if !w.sites[n.region].cutUp && !n.cut {
		w.call(m)
	}
}

// answered delivers an answer from the network. At most one answer ends a call, but late and
// repeated ones reach the state machine too.
func (n *node) answered(w *world, m downMessage) {
	current := m.to.call == n.call && n.calling
	if failed, ok := m.ev.(budget.CallFailed); ok {
		if current {
			n.calling, n.askOld = false, false
			n.step(w, failed)
			if failed.Config != nil {
				n.writeDown(w, *failed.Config, failed.InitialRedisEpoch)
			}
		}
		return
	}
	if current {
		n.calling, n.askOld = false, w.old != nil && w.old.epoch == m.from
	}
	hello, welcomed := m.ev.(budget.HelloAnswered)
	if welcomed && hello.OK.Epoch < n.machine.Info(n.now(w)).Epoch {
		n.askOld = false
	}
	n.step(w, m.ev)
	if welcomed && n.machine.Info(n.now(w)).Epoch == hello.OK.Epoch {
		n.writeDown(w, hello.Config, hello.InitialRedisEpoch)
	}
}

// noteSession records in which session the daemon reports.
func (n *node) noteSession(w *world) {
	if latest := n.machine.LatestSession(); n.last.Before(latest) {
		n.last = latest
		if s := w.site(n.region); s.latest.Before(latest) {
			s.latest = latest
		}
	}
}

// outdated reports whether another daemon of the region, alive or dead, opened a later session than
// this one's last.
func (n *node) outdated(s *site) bool {
	return n.last != budget.SessionID{} && n.last.Before(s.latest)
}

// writeDown saves what an answer to a Hello contained, if the state machine has accepted it.
func (n *node) writeDown(w *world, cfg budget.Config, initialEpoch string) {
	s := w.site(n.region)
	if n.machine.Config().Version == cfg.Version && cfg.Version >= s.known.cfg.Version {
		s.known = stateFile{cfg: cfg, initialEpoch: initialEpoch, epoch: n.machine.Info(n.now(w)).Epoch}
	}
}

// apply makes a directive's changes in the store.
func (n *node) apply(w *world, e budget.ApplyShares) {
	call := storeCall{name: n.name, epoch: n.epoch, heard: e.Heard, changes: make([]store.Change, len(e.Changes))}
	call.deadline = max(n.clockMap.Until(n.now(w).Add(applyDeadline)), 1)
	for i, c := range e.Changes {
		view := n.view(c.Before, w.sc, &n.clockMap)
		if w.sc.Chunks {
			view.Chunk = n.recall(w)
		}
		call.changes[i] = store.Change{Key: c.Key, Capacity: w.sc.Limit.Capacity, Change: limit.Change{
			View: view, Gen: c.Gen.Pack(), Share: entitlement.Bucket(w.sc.Limit, c.Share),
			Grant: limit.Tokens(c.Grant), From: c.From, Cold: c.Cold, Deadline: call.deadline,
		}}
	}
	fault := n.applyFault
	if len(call.changes) > 0 {
		n.applyFault = storeFine
	}
	s := w.site(n.region)
	if fault == storeSticks {
		s.stuck = append(s.stuck, call)
		return
	}
	results, ok := s.store.Apply(call.epoch, call.changes, call.heard, w.now)
	if fault == storeMute {
		call.epoch = ""
		s.stuck = append(s.stuck, call)
		return
	}
	if !ok {
		results = call.failed()
	}
	n.step(w, budget.SharesApplied{Results: results})
}

// failed returns the results of changes that may or may not have been made.
func (c *storeCall) failed() []budget.ShareResult {
	out := make([]budget.ShareResult, len(c.changes))
	for i, x := range c.changes {
		out[i] = budget.ShareResult{Key: x.Key, Failed: true}
	}
	return out
}
