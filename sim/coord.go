package sim

import (
	"fmt"
	"slices"

	"aliquot/budget"
)

// coord is one coordinator in its time as leader: the machine, the shell around it,
// and its access to the replicated log, which ends when it is deposed. It may not
// notice for a while.
type coord struct {
	w       *world
	name    int
	clock   clock
	machine *budget.Leader
	dead    bool
	pauseTo int64
	cutOff  []bool        // by region: no message passes
	cfg     budget.Config // the machine's, for the answers to Hellos

	pending *budget.Plan // proposed, neither applied nor lost
	hellos  [][]helloWait
	reports []reply
	floors  floors
}

type helloWait struct {
	nonce uint64
	reply reply
}

// elect gives the ledger a new leader. The one before lingers, or is dead.
func (w *world) elect() {
	old := w.last
	w.depose()
	w.names++
	n := len(w.stores)
	c := &coord{
		w: w, name: w.names, clock: w.newClock(),
		cutOff: make([]bool, n), hellos: make([][]helloWait, n), reports: make([]reply, n),
	}
	w.coords = append(w.coords, c)
	w.leader, w.last = c, c
	c.reign(old)
	w.after(0, c.tick)
}

// reign starts a machine on the ledger as it is, with an epoch of its own. It does
// so when it is elected, and when the floors of its machine are no longer in force.
func (c *coord) reign(old *coord) {
	w := c.w
	c.refuseAll()
	w.ledger.MintEpoch()
	ledger := w.plant.ledger(old, w.ledger.Clone())
	c.cfg, c.pending, c.floors = w.ledger.Clone().Config, nil, c.newFloors(&ledger.Config)
	c.machine = budget.NewLeader(ledger, c.now())
	w.note("reign begins", c.name, int64(w.ledger.Epoch), int64(c.cfg.Version), 0, 0)
}

// refuseAll answers whoever waits.
func (c *coord) refuseAll() {
	for i := range c.hellos {
		waits := c.hellos[i]
		c.hellos[i] = nil
		for _, h := range waits {
			h.reply(budget.CallFailed{})
		}
		c.take(i, budget.CallFailed{})
	}
}

// depose ends the present leader's access to the log. What it had proposed is
// applied or lost.
func (w *world) depose() {
	c := w.leader
	if c == nil {
		return
	}
	w.leader = nil
	if c.pending != nil && w.chance(1, 2) {
		c.applyPending()
	}
	c.pending = nil
}

func (c *coord) now() budget.Instant { return c.clock.boot(c.w.now) }
func (c *coord) leads() bool         { return c.w.leader == c }

func (c *coord) when(do func()) func() {
	return func() {
		switch {
		case c.dead:
		case c.w.now < c.pauseTo:
			c.w.after(min(c.pauseTo-c.w.now, napEvery), c.when(do))
		default:
			do()
		}
	}
}

func (c *coord) tick() {
	if c.dead {
		return
	}
	c.when(func() {
		c.step(budget.Tick{})
		c.advanceFloors()
	})()
	c.w.after(max(tickEvery, min(c.pauseTo-c.w.now, napEvery)), c.tick)
}

// stop is a coordinator that steps down or dies: whoever waits is refused.
func (c *coord) stop() {
	if c.dead {
		return
	}
	c.w.note("coordinator stops", c.name, 0, 0, 0, 0)
	if c.leads() {
		c.w.depose()
	}
	c.dead = true
	c.refuseAll()
	for i, other := range c.w.coords {
		if other == c {
			c.w.coords = append(c.w.coords[:i:i], c.w.coords[i+1:]...)
			break
		}
	}
}

func (c *coord) hello(h budget.Hello, r reply) {
	if c.w.ledger.Config.Regions[h.Region].Fenced && c.leads() {
		r(budget.CallFailed{})
		return
	}
	c.hellos[h.Region] = append(c.hellos[h.Region], helloWait{h.Nonce, r})
	c.step(budget.HelloReceived{Hello: h})
}

// report hands a report in. A refusal of its own sequence number is for it, any
// other is for the one that waits.
func (c *coord) report(rep budget.Report, r reply) {
	effects := c.machine.Step(budget.ReportReceived{Report: rep}, c.now())
	older := c.reports[rep.Region]
	c.reports[rep.Region] = r
	for _, effect := range effects {
		if e, ok := effect.(budget.Refuse); ok && e.Nonce == 0 && e.Region == rep.Region {
			if e.Seq == rep.Seq {
				c.w.quiet("refused", c.name, int64(rep.Region), int64(e.Seq), int64(rep.Session), 0)
				c.reports[rep.Region] = older
				r(budget.CallFailed{})
			} else if older != nil {
				older(budget.CallFailed{})
				older = nil
			}
			continue
		}
		c.do(effect)
	}
}

func (c *coord) step(ev budget.LeaderEvent) {
	for _, effect := range c.machine.Step(ev, c.now()) {
		c.do(effect)
	}
}

func (c *coord) do(effect budget.LeaderEffect) {
	switch e := effect.(type) {
	case budget.Commit:
		c.commit(e.Plan)
	case budget.Verify:
		c.verify()
	case budget.Welcome:
		if answer := c.waitingHello(e.OK.Region, e.OK.Nonce, true); answer != nil {
			answer(budget.HelloAnswered{
				OK: e.OK, Config: told(c.cfg), InitialRedisEpoch: c.cfg.Regions[e.OK.Region].InitialRedisEpoch,
			})
		}
		c.floors.welcomed[e.OK.Region] = true
	case budget.Answer:
		c.take(e.Directive.Region, budget.DirectiveReceived{Directive: e.Directive})
	case budget.Refuse:
		if e.Nonce != 0 {
			c.refuseHello(e)
			return
		}
		c.take(e.Region, budget.CallFailed{})
	default:
		panic(fmt.Sprintf("sim: unknown effect %T", effect))
	}
}

// refuseHello answers a Hello that opens nothing. A second daemon is told what to
// serve its floor by, under a proof of leadership: a deposed leader's floors are old.
func (c *coord) refuseHello(e budget.Refuse) {
	answer := c.waitingHello(e.Region, e.Nonce, e.Err != budget.ErrSuperseded)
	if answer == nil || e.Err != budget.ErrRegionBusy {
		if answer != nil {
			answer(budget.CallFailed{})
		}
		return
	}
	d := c.w.logDelay()
	c.w.after(d/2, func() {
		if !c.leads() || c.dead {
			answer(budget.CallFailed{})
			return
		}
		c.w.after(d-d/2, c.when(func() {
			cfg := told(c.w.ledger.Config)
			answer(budget.CallFailed{
				Busy: true, Config: &cfg, Self: e.Region, InitialRedisEpoch: cfg.Regions[e.Region].InitialRedisEpoch,
			})
		}))
	})
}

// waitingHello takes the latest, or the oldest, Hello of a nonce: two daemons of one
// region may have counted to the same one.
func (c *coord) waitingHello(region int, nonce uint64, latest bool) reply {
	waits := c.hellos[region]
	found := -1
	for i, h := range waits {
		if h.nonce == nonce && (found < 0 || latest) {
			found = i
		}
	}
	if found < 0 {
		c.w.violate("coordinator %d answers a Hello of region %d that does not wait", c.name, region)
		return nil
	}
	r := waits[found].reply
	c.hellos[region] = append(waits[:found:found], waits[found+1:]...)
	return r
}

// take answers the report that waits.
func (c *coord) take(region int, ev budget.RegionEvent) {
	if r := c.reports[region]; r != nil {
		c.reports[region] = nil
		r(ev)
	}
}

// logDelay is a quorum round.
func (w *world) logDelay() int64 {
	if w.has(slowLog) && w.chance(1, 100) {
		return w.between(0, 4*second)
	}
	return w.between(milli, 30*milli)
}

// told is the configuration as a region gets it: what it is told is its floor.
func told(c budget.Config) budget.Config {
	c.Regions = slices.Clone(c.Regions)
	for i := range c.Regions {
		c.Regions[i].Floor = c.Regions[i].Told
	}
	return c
}

// commit replicates a plan. One that is deposed meanwhile learns nothing and
// steps down after a while; one whose floors have changed begins anew.
func (c *coord) commit(p budget.Plan) {
	c.pending = &p
	d, m := c.w.logDelay(), c.machine
	c.w.after(d/2, func() {
		if c.machine != m {
			c.w.plant.outlived(p, c.w.ledger)
			return
		}
		if c.dead || !c.leads() || c.pending != &p {
			c.w.after(c.w.between(0, 20*second), c.when(c.stop))
			return
		}
		if !c.applyPending() {
			return
		}
		c.w.after(d-d/2, c.when(func() { c.stepOf(m, budget.Committed{}) }))
	})
}

// stepOf is a step of machine m, if it still is the coordinator's.
func (c *coord) stepOf(m *budget.Leader, ev budget.LeaderEvent) {
	if c.machine == m {
		c.step(ev)
	}
}

// applyPending reports whether the ledger took the plan. It refuses one only if the
// floors have changed since it was made.
func (c *coord) applyPending() bool {
	p := *c.pending
	c.pending = nil
	stale := c.cfg.Version != c.w.ledger.Config.Version
	c.w.plant.plan(&p, c.w.ledger)
	c.w.note("committed", c.name, int64(len(p.Changes)), int64(b2i(stale)), 0, 0)
	if err := c.w.ledger.Apply(p); err != nil {
		if !stale {
			c.w.violate("the ledger refuses the leader's plan: %v", err)
		}
		return false
	}
	for _, r := range p.InitialRedisEpochs {
		c.cfg.Regions[r.Region].InitialRedisEpoch = c.w.ledger.Config.Regions[r.Region].InitialRedisEpoch
	}
	c.w.checkLedger()
	return true
}

// verify proves the leadership, if it is one at some time in between.
func (c *coord) verify() {
	d, m := c.w.logDelay(), c.machine
	c.w.after(d/2, func() {
		if c.machine != m {
			return
		}
		if c.dead || !c.leads() && !c.w.plant.is(noVerify) {
			c.w.after(c.w.between(0, 20*second), c.when(c.stop))
			return
		}
		c.w.after(d-d/2, c.when(func() { c.stepOf(m, budget.Verified{}) }))
	})
}
