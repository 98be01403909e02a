package check

import (
	"fmt"
	"slices"

	"aliquot/budget"
	"aliquot/internal/sim/check/form"
	"aliquot/internal/sim/shell"
)

// seat is one coordinator during its time as leader: the state machine and the shell around it.
type seat struct {
	epoch   uint64
	clock   shell.Clock
	machine *budget.Leader
	cfg     budget.Config // for the answers to Hellos
	pending *budget.Plan  // proposed, not applied
	held    bool          // the commit is delayed
	waits   [maxRegions]wait
	// due: the state machine has received something and has not planned since.
	due    bool
	lasted int // quanta since it was deposed
	steps  budget.FloorSteps
	want   int8 // the division it uses; a deposed leader keeps its last one

	form *form.Form
}

// wait holds the calls that wait for an answer of a seat.
type wait struct {
	report caller // name 0: none
	hellos []helloWait
}

type helloWait struct {
	incarnation, nonce uint64
	from               caller
}

func (s *seat) clone() *seat {
	c := *s
	c.machine = s.machine.Clone()
	c.form = nil
	return &c
}

func (s *seat) now(w *world) budget.Instant { return s.clock.Boot(w.now) }

// elect gives the ledger a new leader.
func (w *world) elect() {
	ledger := w.log()
	ledger.MintEpoch()
	s := &seat{epoch: ledger.Epoch, clock: w.sc.leaderClock(), cfg: ledger.Clone().Config}
	s.machine = budget.NewLeader(ledger.Clone(), s.now(w))
	s.steps = budget.NewFloorSteps(&s.cfg, s.now(w))
	s.steps.SetRules(w.fill(), w.sc.Limit.Tail())
	w.leads, w.mineLeads, w.lonely = s, true, 0
}

// depose ends the leader's access to the log. Its pending plan is applied or lost.
func (w *world) depose(applied bool) *seat {
	s := w.seat(w.leads.epoch)
	if s.pending != nil && applied {
		w.commitOf(s)
	}
	w.leads, w.mineLeads = nil, false
	return s
}

// dies refuses the calls that wait.
func (w *world) dies(s *seat) {
	for i := range s.waits {
		w.fail(s.waits[i].report)
		for _, h := range s.waits[i].hellos {
			w.fail(h.from)
		}
	}
}

// fail reports to a daemon that its call failed.
func (w *world) fail(c caller) {
	if c.name != 0 {
		w.answer(c, 0, budget.CallFailed{})
	}
}

// answer sends an answer, unless the way is cut.
func (w *world) answer(to caller, from uint64, ev budget.RegionEvent) {
	s := w.sites[to.region]
	if s.cutDown {
		return
	}
	for _, n := range s.nodes {
		if n.name == to.name && !n.cut {
			w.send(downMessage{to: to, from: from, ev: ev})
		}
	}
}

// deliver delivers a message to its seat.
func (w *world) deliver(m upMessage) {
	s := w.seat(m.to)
	if s == nil {
		w.fail(m.from)
		return
	}
	s.due = true
	if m.hello != nil {
		hellos := s.waits[m.hello.Region].hellos
		s.waits[m.hello.Region].hellos = append(hellos[:len(hellos):len(hellos)], helloWait{m.hello.Incarnation, m.hello.Nonce, m.from})
		w.step(s, budget.HelloReceived{Hello: *m.hello})
		return
	}
	w.report(s, *m.report, m.from)
}

// report passes a report to a seat. A refusal with the report's own sequence number answers it; any
// other refusal answers the report that waits.
func (w *world) report(s *seat, rep budget.Report, from caller) {
	effects := w.stepped(s, budget.ReportReceived{Report: rep})
	waits := &s.waits[rep.Region]
	older := waits.report
	waits.report = from
	for _, effect := range effects {
		e, refused := effect.(budget.Refuse)
		switch {
		case !refused || e.Nonce != 0 || e.Region != rep.Region:
			w.act(s, effect)
		case e.Seq == rep.Seq:
			waits.report = older
			w.fail(from)
		default:
			w.fail(older)
			older = caller{}
		}
	}
}

func (w *world) stepped(s *seat, ev budget.LeaderEvent) []budget.LeaderEffect {
	if s == w.leads {
		s.want = w.want
	}
	s.machine.DivideBy(w.sc.divisions[s.want])
	return s.machine.Step(ev, s.now(w))
}

func (w *world) step(s *seat, ev budget.LeaderEvent) {
	for _, effect := range w.stepped(s, ev) {
		w.act(s, effect)
	}
}

func (w *world) act(s *seat, effect budget.LeaderEffect) {
	switch e := effect.(type) {
	case budget.Commit:
		s.pending, s.held = &e.Plan, false
	case budget.Verify:
		if w.proves(s) {
			w.step(s, budget.Verified{})
		}
	case budget.Welcome:
		w.answer(s.waitingHello(w, e.OK.Region, e.Incarnation, e.OK.Nonce), s.epoch, budget.HelloAnswered{
			OK: e.OK, Config: told(s.cfg), InitialRedisEpoch: s.cfg.Regions[e.OK.Region].InitialRedisEpoch,
		})
	case budget.Answer:
		waits := &s.waits[e.Directive.Region]
		if to := waits.report; to.name != 0 {
			waits.report = caller{}
			w.answer(to, s.epoch, budget.DirectiveReceived{Directive: e.Directive})
		}
	case budget.Refuse:
		w.refuse(s, e)
	default:
		panic(fmt.Sprintf("check: unknown effect %T", effect))
	}
}

// beat is a message of a leader to the voters that a majority has answered. after: it was sent
// after the question that it must settle. led: the seat led at that time.
type beat struct{ after, led bool }

// lateAnswer is for how many quanta after it was deposed a leader may receive answers to earlier
// messages.
const lateAnswer = 4

// proves reports whether a seat's leadership is proved by the answer to a message that is sent now.
// An answer to a message from before the seat was deposed proves nothing (cluster/proof.go).
func (w *world) proves(s *seat) bool {
	beats := [...]beat{{after: false, led: s.lasted < lateAnswer}, {after: true, led: s == w.leads}}
	return w.sc.noProof || slices.ContainsFunc(beats[:], func(b beat) bool { return (b.after || w.sc.olderProof) && b.led })
}

// refuse answers a Hello that opens nothing, or a report that waits. A second daemon learns which
// floor to serve, under a proof of leadership.
func (w *world) refuse(s *seat, e budget.Refuse) {
	if e.Nonce == 0 {
		w.fail(s.waits[e.Region].report)
		s.waits[e.Region].report = caller{}
		return
	}
	to := s.waitingHello(w, e.Region, e.Incarnation, e.Nonce)
	if e.Err != budget.ErrRegionBusy || s != w.leads {
		w.fail(to)
		return
	}
	cfg := told(w.ledger.Config)
	w.answer(to, s.epoch, budget.CallFailed{
		Busy: true, Config: &cfg, Self: e.Region, InitialRedisEpoch: cfg.Regions[e.Region].InitialRedisEpoch,
	})
}

// waitingHello returns who waits for the answer to a Hello.
func (s *seat) waitingHello(w *world, region int, incarnation, nonce uint64) caller {
	hellos := s.waits[region].hellos
	found := slices.IndexFunc(hellos, func(h helloWait) bool { return h.incarnation == incarnation && h.nonce == nonce })
	if found < 0 {
		w.violate("the leader answers a Hello of region %d that does not wait", region)
		return caller{}
	}
	from := hellos[found].from
	s.waits[region].hellos = without(hellos, found)
	return from
}

// commit applies the leader's plan and reports that to it.
func (w *world) commit() {
	s := w.seat(w.leads.epoch)
	w.commitOf(s)
	s.due = true
	w.step(s, budget.Committed{})
}

// commitOf applies a plan. The ledger must not refuse a plan of its present leader.
func (w *world) commitOf(s *seat) {
	p := *s.pending
	s.pending, s.held = nil, false
	if err := w.log().Apply(p); err != nil {
		w.violate("the ledger refuses the leader's plan: %v", err)
		return
	}
	s.cfg = w.ledger.Clone().Config
}

// told returns the configuration as a region gets it: each floor is the told floor.
func told(c budget.Config) budget.Config {
	c.Regions = slices.Clone(c.Regions)
	for i := range c.Regions {
		c.Regions[i].Floor = c.Regions[i].Told
	}
	return c
}
