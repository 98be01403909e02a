package sim

import (
	"fmt"

	"aliquot/budget"
	"aliquot/internal/sim/shell"
	"aliquot/internal/sim/site"
	"aliquot/internal/sim/timeline"
)

// coord is one coordinator during its time as leader: the state machine, the shell around it, and
// its access to the replicated log. The access ends when the coordinator is deposed, which it may
// not notice for a while.
type coord struct {
	w       *world
	name    int
	clock   shell.Clock
	machine *budget.Leader
	dead    bool
	// The coordinator stops from pausedAt until pauseTo and leads until deposedAt, all in true
	// time. 0: it has not stopped, and it leads.
	pausedAt, pauseTo, deposedAt int64

	cutOff  []bool        // by region: no message passes
	cfg     budget.Config // the state machine's, for the answers to Hellos
	version uint64        // of the rules, as far as it has applied the log

	pending *budget.Plan // proposed, neither applied nor lost
	hellos  [][]helloWait
	reports []reply
	// steps decides when a change of floors continues. advancing: a step is in flight.
	steps     budget.FloorSteps
	advancing bool
}

// Some epochs begin with generations that are nearly used up, and end when they are: those of one
// coordinator in spentEvery, after some hundred messages.
const (
	spentEvery  = 4
	nearlySpent = 1<<31 - 300
)

type helloWait struct {
	incarnation, nonce uint64
	daemon             budget.DaemonID
	reply              reply
}

// elect gives the ledger a new leader. The previous leader lingers or is dead.
func (w *world) elect() {
	w.depose()
	w.Names++
	n := len(w.Stores)
	c := &coord{
		w: w, name: w.Names, clock: w.NewClock(),
		cutOff: make([]bool, n), hellos: make([][]helloWait, n), reports: make([]reply, n),
	}
	w.coords = append(w.coords, c)
	w.leader = c
	c.beginEpoch()
	w.Plan(0, c)
}

// beginEpoch starts a state machine on the present ledger, with its own epoch. A coordinator does
// that when it is elected, and when the floors of its state machine are no longer in force.
func (c *coord) beginEpoch() {
	w := c.w
	c.refuseAll()
	w.ledger.MintEpoch()
	w.EpochBegan = w.Now()
	c.cfg, c.pending, c.advancing = w.ledger.Clone().Config, nil, false
	c.steps = budget.NewFloorSteps(&c.cfg, c.now())
	c.machine = budget.NewLeader(w.ledger.Clone(), c.now())
	if c.name%spentEvery == 0 && w.ledger.Epoch%2 == 1 {
		c.machine.SpendGenerations(nearlySpent)
	}
	c.takeRules()
	w.Note("epoch begins", c.name, int64(w.ledger.Epoch), int64(c.cfg.Version), 0, 0)
}

// refuseAll refuses every call that waits.
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

// depose ends the present leader's access to the log. Its pending plan is applied or lost.
func (w *world) depose() {
	c := w.leader
	if c == nil {
		return
	}
	w.leader, c.deposedAt = nil, w.Now()
	if c.pending != nil && w.Chance(1, 2) {
		c.applyPending()
	}
	c.pending = nil
}

func (c *coord) now() budget.Instant { return c.clock.Boot(c.w.Now()) }
func (c *coord) leads() bool         { return c.w.leader == c }

func (c *coord) when(do func()) timeline.Callback {
	return func() {
		switch {
		case c.dead:
		case c.w.Now() < c.pauseTo:
			c.w.After(min(c.pauseTo-c.w.Now(), site.NapEvery), c.when(do))
		default:
			do()
		}
	}
}

// Happen is a tick.
func (c *coord) Happen() {
	switch {
	case c.dead:
	case c.w.Now() < c.pauseTo:
		c.w.Plan(min(c.pauseTo-c.w.Now(), site.NapEvery), c)
	default:
		c.step(budget.Tick{})
		c.advanceFloors()
		if c.leads() && c.machine.EpochSpent() {
			c.beginEpoch()
		}
		c.w.Plan(site.TickEvery, c)
	}
}

// stop lets a coordinator step down or die, and refuses the calls that wait.
func (c *coord) stop() {
	if c.dead {
		return
	}
	c.w.Note("coordinator stops", c.name, 0, 0, 0, 0)
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

// report passes a report to the state machine. A refusal with the report's own sequence number
// answers it; any other refusal answers the report that waits.
func (c *coord) report(rep budget.Report, r reply) {
	rep.Keys = c.wanted(rep.Keys)
	effects := c.machine.Step(budget.ReportReceived{Report: rep}, c.now())
	older := c.reports[rep.Region]
	c.reports[rep.Region] = r
	for _, effect := range effects {
		if e, ok := effect.(budget.Refuse); ok && e.Nonce == 0 && e.Region == rep.Region {
			if e.Seq == rep.Seq {
				c.w.Quiet("refused", c.name, int64(rep.Region), int64(e.Seq), int64(rep.Session), 0)
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
		if h := c.waitingHello(e.OK.Region, e.Incarnation, e.OK.Nonce); h.reply != nil {
			h.reply(budget.HelloAnswered{
				OK: e.OK, Config: told(c.cfg), InitialRedisEpoch: c.cfg.Regions[e.OK.Region].InitialRedisEpoch,
			})
		}
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

// take answers the report that waits.
func (c *coord) take(region int, ev budget.RegionEvent) {
	if r := c.reports[region]; r != nil {
		c.reports[region] = nil
		r(ev)
	}
}
