package site

import (
	"fmt"
	"slices"
	"time"

	"aliquot/budget"
	"aliquot/internal/boottime"
	"aliquot/internal/prefetch"
	"aliquot/internal/recall"
	"aliquot/internal/roster"
	"aliquot/internal/sim/faults"
	"aliquot/internal/sim/rule"
	"aliquot/internal/sim/shell"
	"aliquot/internal/sim/timeline"
	"aliquot/limit"
)

// TickEvery is the tick interval of both state machines, on their own clocks.
const TickEvery = 20 * milli

// lookEvery is how often a daemon ticks that has nothing to wait for.
const lookEvery = 250 * time.Millisecond

// NapEvery is how often a paused daemon checks whether the pause was ended early.
const NapEvery = 100 * milli

// Node is one daemon of a region: the state machine and the shell around it.
type Node struct {
	w       *Regions
	Region  int
	Name    int // unique
	clock   shell.Clock
	Machine *budget.Region
	phase   budget.Phase // at the last tick
	Dead    bool
	buried  bool // dead for good, together with its commands in flight
	Cut     bool // no message passes
	pauseTo int64

	Version  uint64  // of its rules; 0: it knows none
	told     rulesAt // those that the state machine was last told
	epoch    string  // the store's contents, as this daemon knows them
	stamp    uint32  // of epoch
	birth    int64
	clockMap shell.ClockMap
	oldClock shell.ClockMap // of the store's earlier contents
	sampled  int64          // true time at which the reading that clockMap uses was requested
	learning bool
	probing  bool // a paused daemon's probe waits for its return
	recalled *recall.Table
	breaker  breaker

	formers []former       // by rule
	looked  budget.Instant // when formers were last brought up to date

	spare    []*takeCall // calls that are over, for newCall
	alone    []ask       // memory of decideAlone
	locals   []*local    // by rule; nil: nothing
	validity prefetch.Validity
	sweeping bool // a sweep of the chunks is planned

	reference boottime.Reference // the leader's clock
	heard     uint64             // the epoch of the leader whose clock reference is
	unseen    unseen

	call     uint64 // number of the latest RPC
	sent     int64  // true time at which it was sent
	sentAt   budget.Instant
	Calling  bool
	deadline int64       // true time at which the call in flight counts as lost
	waiting  bool        // a check of the deadline is planned
	Target   coordinator // the coordinator that answered last
	ticks    int64       // true time of the next tick that is planned; 0: none

	read   budget.Instant // what its clock showed at readAt
	readAt int64          // true time; below 0: it was not read yet

	// roster is what the daemon knows of the region's other daemons; nil: the world has no such
	// list.
	roster     *roster.Roster
	beside     bool // another daemon is known
	left       bool // a coordinator has said that another daemon has what the region may spend
	spent      bool // it could spend by the store when it last looked
	aloneSince budget.Instant
	unmarked   bool  // the store did not take the latest mark
	storeCutTo int64 // true time up to which its commands do not reach its store
	clockCutTo int64 // true time up to which it does not get to read the clock of its store's present contents
	heardAt    int64 // true time at which it sent the latest call that a coordinator has answered

	kept  *Kept         // what its last run has left; nil: nothing, or it is decided
	last  recall.Return // of kept
	named string        // the store's contents that the latest Hello named

	began int64            // true time of its start
	Last  budget.SessionID // the latest session that it opened; zero: none yet
}

// stateFile is what a region's daemon saved at its latest Welcome.
type stateFile struct {
	cfg          budget.Config
	initialEpoch string
	epoch        uint64
	rules        uint64
	formers      []former
}

// StartNode starts a daemon. With a state file it knows the configuration, and which store contents
// started full. id is the id of the daemon that it replaces; 0: a new id.
func (w *Regions) StartNode(region int, withFile bool, id budget.DaemonID) {
	w.start(region, withFile, id, nil)
}

// start starts a daemon with what its last run has left; nil: nothing.
func (w *Regions) start(region int, withFile bool, id budget.DaemonID, kept *Kept) {
	if w.Buried[region] {
		return
	}
	w.Names++
	n := &Node{w: w, Region: region, Name: w.Names, clock: w.NewClock(), began: w.Now(), readAt: -1, clockMap: shell.ClockMap{Rho: int64(w.Config.RhoPPM)}}
	if kept != nil && kept.sameClock {
		n.clock = kept.clock
	}
	n.Machine = budget.NewRegion(region, budget.Config{}, uint64(n.Name), n.Now())
	n.recalled = recall.New(recalledKeys, n.Now())
	n.Machine.ApplyAtMost(1 + n.Name%3) // few keys are hot at once, and their shares must come in parts
	if file := w.known[region]; withFile && len(file.cfg.Regions) > 0 {
		n.Version = file.rules
		n.remember(file.formers)
		n.Machine.SetConfig(region, file.cfg, file.initialEpoch, file.epoch, n.Now())
	}
	n.returnTo(kept)
	if kept == nil && w.Faults.Strikes(faults.StuckStore, 6) {
		n.storeCutTo = w.Now() + w.Between(0, 60*second) // it starts without its store
	}
	w.Nodes = append(w.Nodes, n)
	w.Note("daemon starts", region, int64(n.Name), 0, 0, 0)
	n.learn()
	w.newRoster(n, id, withFile)
	n.tellRules()
	n.arm()
	w.After(w.Between(0, second), n.probe)
	w.above.VersionsChanged()
}

// Now returns what the daemon's clock shows. It is called many times at one instant.
func (n *Node) Now() budget.Instant {
	if n.readAt != n.w.Now() {
		n.read, n.readAt = n.clock.Boot(n.w.Now()), n.w.Now()
	}
	return n.read
}

func (n *Node) paused() bool     { return n.w.Now() < n.pauseTo }
func (n *Node) configured() bool { return len(n.Machine.Config().Regions) > 0 }

// nap returns how long a paused daemon waits until it checks whether it still is paused.
func (n *Node) nap() int64 { return min(n.pauseTo-n.w.Now(), NapEvery) }

// When returns what calls do as soon as the daemon runs, or never if it is dead.
func (n *Node) When(do func()) timeline.Happening { return &deferred{n, do} }

// deferred is a call that a daemon makes when it runs.
type deferred struct {
	n  *Node
	do func()
}

// Happen makes the call.
func (d *deferred) Happen() {
	if d.n.runs(d) {
		d.do()
	}
}

// runs reports whether the daemon does what is due now. If it is paused, that is planned again. A
// dead daemon never does it.
func (n *Node) runs(due timeline.Happening) bool {
	switch {
	case n.Dead:
		return false
	case n.paused():
		n.w.Plan(n.nap(), due)
		return false
	default:
		return true
	}
}

// arm plans the next tick that has an effect, at the tick interval. Ticks without an effect would
// change only the time that a run takes.
func (n *Node) arm() {
	due := n.clock.Reaches(int64(min(n.Machine.NextTick(n.Now()), n.Now().Add(lookEvery))))
	steps := max((due-n.w.Now()+TickEvery-1)/TickEvery, 1)
	at := n.w.Now() - n.w.Now()%TickEvery + steps*TickEvery + int64(n.Name)%TickEvery
	if n.ticks == 0 || at < n.ticks {
		n.ticks = at
		n.w.Plan(at-n.w.Now(), n)
	}
}

// Happen is a tick.
func (n *Node) Happen() {
	switch {
	case n.Dead || n.ticks != n.w.Now():
	case n.paused():
		n.ticks += n.nap()
		n.w.Plan(n.nap(), n)
	case n.staleFloors():
		n.w.above.Replace(n, 100*milli)
	default:
		n.ticks = 0
		n.noteLimits()
		n.step(budget.RegionTick{})
		n.lookAtPhase()
	}
}

// lookAtPhase checks the phase. What a region may spend grows without an event only with its phase.
func (n *Node) lookAtPhase() {
	if p := n.Machine.Phase(n.Now()); p != n.phase {
		n.phase = p
		n.w.SuspectAll()
	}
}

// adoption records which floors a region's daemons were told last, and when.
type adoption struct {
	version uint64
	at      int64
}

// staleFloors reports whether another daemon of the region was told other floors in this one's
// lifetime.
func (n *Node) staleFloors() bool {
	last := n.w.adopted[n.Region]
	return n.configured() && n.Machine.Config().Version < last.version && n.began < last.at
}

// outdated reports whether another daemon of the region, alive or dead, opened a later session than
// this one's last. That daemon may have given up what this one believes to have. A daemon that has
// opened none believes to have nothing until it is cut off for so long that it takes the floor.
func (n *Node) outdated() bool {
	if n.Last == (budget.SessionID{}) {
		return n.Machine.Info(n.Now()).Phase == budget.CutOff && n.w.inSession[n.Region] > n.began
	}
	return n.Last.Before(n.w.Opened[n.Region])
}

// noteSession records in which session the daemon reports. An answer that the state machine does
// not accept, because the session was over by then, is no sign of one.
func (n *Node) noteSession() {
	if latest := n.Machine.LatestSession(); n.Last.Before(latest) {
		n.Last = latest
		if n.w.Opened[n.Region].Before(latest) {
			n.w.Opened[n.Region] = latest
		}
	}
}

// step gives the state machine one event and carries out its effects.
func (n *Node) step(ev budget.RegionEvent) {
	switch ev.(type) {
	case budget.RegionTick, budget.DirectiveReceived:
		// What these allow is in force with the SharesApplied that follows.
	default:
		n.w.SuspectAll()
	}
	defer n.arm()
	effects := n.Machine.Step(ev, n.Now())
	n.noteSession()
	n.stand()
	for _, effect := range effects {
		switch e := effect.(type) {
		case budget.SendHello:
			e.Hello.Standing = n.standing(false)
			n.w.Note("says Hello", n.Region, int64(n.Name), int64(e.Hello.Nonce), int64(len(e.Hello.Held)), 0)
			n.named = n.epoch
			n.send(Message{Hello: &e.Hello, Place: n.kept.place()})
		case budget.SendReport:
			e.Report.Standing = n.standing(n.unmarked)
			n.w.Quiet("reports", n.Region, int64(n.Name), int64(e.Report.Seq), int64(e.Report.Session), int64(len(e.Report.Keys)))
			n.send(Message{Report: &e.Report})
		case budget.ApplyShares:
			n.apply(e.Changes, e.Heard)
		default:
			panic(fmt.Sprintf("sim: unknown effect %T", effect))
		}
	}
}

// Answered delivers the network's answer to call id. At most one answer ends a call, but late and
// repeated ones reach the state machine too.
func (n *Node) Answered(id uint64, from coordinator, ev budget.RegionEvent) {
	if failed, ok := ev.(budget.CallFailed); ok {
		if id == n.call && n.Calling {
			n.Calling, n.Target = false, nil
			if failed.Busy {
				n.heardAt = n.sent
				n.left = true
				n.recalled.Disown()
				n.updateRoster(func() {
					n.roster.Told(failed.Epoch, failed.Others, n.Now())
					n.hears(failed.Wait)
				})
			}
			n.step(ev)
			if failed.Config != nil {
				n.writeDown(*failed.Config, failed.InitialRedisEpoch)
			}
		}
		return
	}
	current := id == n.call && n.Calling
	if current {
		n.Calling, n.Target, n.heardAt = false, from, n.sent
	}
	switch e := ev.(type) {
	case budget.HelloAnswered:
		if e.OK.Epoch < n.Machine.Info(n.Now()).Epoch {
			n.Target = nil // an old leader: try another coordinator
		}
		n.w.Note("is welcomed", n.Region, int64(n.Name), int64(e.OK.Nonce), int64(e.OK.Session), int64(len(e.OK.Actions)))
	case budget.DirectiveReceived:
		if e.Directive.Renew {
			n.w.Note("lease renewed", n.Region, int64(n.Name), int64(e.Directive.Seq), int64(e.Directive.Session), int64(len(e.Directive.Actions)))
		} else {
			n.w.Quiet("directive", n.Region, int64(n.Name), int64(e.Directive.Seq), int64(e.Directive.Session), int64(len(e.Directive.Actions)))
		}
	}
	if d, ok := ev.(budget.DirectiveReceived); ok && current {
		if n.Machine.LatestSession() == (budget.SessionID{Epoch: d.Directive.Epoch, Number: d.Directive.Session}) {
			n.recalled.HoldsUntil(n.sentAt.Add(budget.SessionHolds(int64(n.w.Config.RhoPPM))))
			n.w.inSession[n.Region] = n.sent
		}
		n.updateRoster(func() {
			if n.roster.Told(d.Directive.Epoch, d.Directive.Others, n.Now()); n.recalled.InSession(n.Now()) {
				n.roster.Vouched()
			}
		})
	}
	n.step(ev)
	if _, ok := ev.(budget.HelloAnswered); ok && current {
		if n.left {
			n.left, n.aloneSince = false, n.Now()
		}
		n.updateRoster(func() { n.hears(false) })
	}
	if e, ok := ev.(budget.HelloAnswered); ok && n.Machine.Info(n.Now()).Epoch == e.OK.Epoch {
		n.writeDown(e.Config, e.InitialRedisEpoch)
	}
}

// hears applies a coordinator's answer to a Hello: whether the daemon must wait before it spends
// through the store.
func (n *Node) hears(wait bool) {
	if wait {
		n.roster.Wait(n.Now())
	} else {
		n.roster.Vouched()
	}
}

// writeDown saves what an answer to a Hello contained, if the state machine has accepted it. That
// happens at the same instant, so before anything is acknowledged.
func (n *Node) writeDown(cfg budget.Config, initialEpoch string) {
	if last := &n.w.adopted[n.Region]; last.version < n.Machine.Config().Version {
		*last = adoption{version: n.Machine.Config().Version, at: n.w.Now()}
	}
	if n.Machine.Config().Version == cfg.Version && cfg.Version >= n.w.known[n.Region].cfg.Version {
		n.w.known[n.Region] = stateFile{cfg: cfg, initialEpoch: initialEpoch, epoch: n.Machine.Info(n.Now()).Epoch, rules: max(n.Version, n.w.known[n.Region].rules), formers: slices.Clone(n.formers)}
	}
}

// Pause stops a daemon for a while. Its clock continues.
func (n *Node) Pause(d int64) {
	n.pauseTo = n.w.Now() + d
	n.w.After(d, n.w.SuspectAll)
}

// Owes returns what the daemon owes its store of a rule's key.
func (n *Node) Owes(r *rule.Rule) limit.Tokens { return n.recalled.Owed(r.Key, n.Now()) }

// OwedSlots returns the slots among what the daemon owes, and what they cost together. It still owes them.
func (n *Node) OwedSlots(r *rule.Rule) (slots []uint64, cost limit.Tokens) {
	l := r.Latest()
	c := recall.Charge{Key: r.Key, Limit: l, RhoPPM: int64(n.Machine.Config().RhoPPM)}
	if l.Algorithm != limit.Concurrency {
		return nil, 0
	}
	carried := n.recalled.Carry(&c, n.recalled.Call(), n.Now())
	n.recalled.Paid(r.Key, carried, false) // no call has left with it, and the daemon may live on
	for _, s := range carried.Held {
		slots, cost = append(slots, s.Slot), cost+s.Cost
	}
	return slots, cost
}

// Heal ends the daemon's trouble.
func (n *Node) Heal() {
	n.Cut, n.pauseTo, n.storeCutTo, n.clockCutTo = false, min(n.pauseTo, n.w.Now()), 0, 0
}

// Kill ends a daemon for good.
func (w *Regions) Kill(n *Node) {
	w.above.ForgiveDebts(n)
	w.end(n)
}

func (w *Regions) end(n *Node) {
	w.Note("daemon dies", n.Region, int64(n.Name), 0, 0, 0)
	n.Dead = true
	for i, other := range w.Nodes {
		if other == n {
			w.Nodes = append(w.Nodes[:i:i], w.Nodes[i+1:]...)
			return
		}
	}
}

// Bury has a region's daemons, and their commands in flight, never come back.
func (w *Regions) Bury(region int) {
	w.Buried[region], w.known[region] = true, stateFile{}
	for _, n := range w.Nodes {
		if n.Region == region {
			n.buried = true
		}
	}
}
