// Package site is the regions of a simulated world: their stores, and their daemons with the state
// machine of package budget.
package site

import (
	"aliquot/budget"
	"aliquot/internal/sim/faults"
	"aliquot/internal/sim/rule"
	"aliquot/internal/sim/shell"
	"aliquot/internal/sim/timeline"
	"aliquot/limit"
)

// Regions are the stores and daemons of a world's regions, with what they share. They are not safe
// for concurrent use.
type Regions struct {
	timeline.Timeline
	above  above
	Faults faults.Set

	Config budget.Config // as at the bootstrap
	Rules  []*rule.Rule
	Stores []*store
	Nodes  []*Node // alive
	known  []stateFile
	Opened []budget.SessionID // by region: the latest one that a daemon of it opened
	// inSession is, by region, the true time at which a daemon sent the latest report that was answered in its session.
	inSession []int64
	Buried    []bool // by region: fenced, its daemons never come back
	// EpochBegan is the true time at which the leader's present epoch began.
	EpochBegan int64
	adopted    []adoption // by region
	Stuck      []int64    // until when a region's store commands are delayed
	Names      int
	Drifting   bool // clocks run at their own rates
	// clocksAgree: the stores' clocks show the same, within a second.
	ClocksAgree bool
	// spoil changes what daemons send to their stores; nil: nothing does.
	Spoil func(*limit.View)

	places      uint64 // the latest token that a daemon chose
	Suspects    bool   // some rule is suspect
	slots       uint64 // the latest slot that was named
	Decisions   int64
	Moves       int64
	Chunked     int64 // decisions that were admitted from chunks
	emergencies int64 // decisions in the daemon without the store
}

// Start begins the timeline of a world without regions, whose trouble ends at a true time.
func (w *Regions) Start(above above, line timeline.Timeline, faultsEnd int64) {
	w.above, w.Timeline = above, line
	w.Faults = faults.NewSet(&w.Timeline, faultsEnd)
}

// AddStore adds a region with a store and no daemon.
func (w *Regions) AddStore() {
	w.Stores = append(w.Stores, newStore(w, len(w.Stores)))
	w.Buried, w.adopted = append(w.Buried, false), append(w.adopted, adoption{})
	w.known, w.Opened, w.Stuck = append(w.known, stateFile{}), append(w.Opened, budget.SessionID{}), append(w.Stuck, 0)
	w.inSession = append(w.inSession, 0)
}

// above is the world around the regions.
type above interface {
	// Admit counts what a region admitted of a rule, with the slots that it took.
	Admit(r *rule.Rule, region int, amount limit.Tokens, slots []uint64)
	// Carry takes a daemon's call to a coordinator, and its answer back.
	Carry(n *Node, id uint64, m Message)
	// Coordinated reports whether any coordinator runs.
	Coordinated() bool
	// Replace kills a daemon and starts another in its place, after a while.
	Replace(n *Node, after int64)
	// VersionsChanged is called after a daemon has adopted other rules.
	VersionsChanged()
	// Lost is called when a region's store begins with other contents.
	Lost(region int)
	// ForgiveDebts is called when nothing knows any more what a daemon owes its store.
	ForgiveDebts(n *Node)
}

// ruleOf returns the rule of a key.
func (w *Regions) ruleOf(k budget.KeyID) *rule.Rule { return w.Rules[k.Rule-1] }

// StoreNow returns what the clock of a region's store shows.
func (w *Regions) StoreNow(region int) int64 { return w.Stores[region].Time() }

// NewClock draws a clock, often one of the fastest or slowest that rho allows.
func (w *Regions) NewClock() shell.Clock {
	low, high := shell.Slowest(w.Config.RhoPPM), shell.Fastest(w.Config.RhoPPM)
	c := shell.Clock{Offset: w.Between(second, 1000*second), Drift: w.Between(low, high+1)}
	switch w.Rand.IntN(3) {
	case 0:
		c.Drift = low
	case 1:
		c.Drift = high
	}
	if !w.Drifting {
		c.Drift = 0
	}
	return c
}

// NodeOf returns the region's daemon, the latest one if there are two.
func (w *Regions) NodeOf(region int) *Node {
	for i := len(w.Nodes) - 1; i >= 0; i-- {
		if w.Nodes[i].Region == region {
			return w.Nodes[i]
		}
	}
	return nil
}

// Oldest returns the oldest daemon of a region that is not its latest.
func (w *Regions) Oldest(region int) *Node {
	latest := w.NodeOf(region)
	for _, n := range w.Nodes {
		if n.Region == region && n != latest {
			return n
		}
	}
	return nil
}

// SuspectAll schedules a check of every key after the present event.
func (w *Regions) SuspectAll() {
	w.Suspects = true
	for _, r := range w.Rules {
		r.Suspect = true
	}
}

// suspect schedules a check of a key after the present event.
func (w *Regions) suspect(r *rule.Rule) { w.Suspects, r.Suspect = true, true }

// storeDelay returns the delay from a daemon to its store. A command can be delayed for long.
func (w *Regions) storeDelay(region int) int64 {
	if w.Stuck[region] > w.Now() {
		return w.Between(0, w.Stuck[region]-w.Now())
	}
	if w.Faults.Strikes(faults.StuckStore, 300) {
		if w.Chance(1, 2) {
			return w.Between(0, 2*takeDeadline) // many callers leave, and many of their calls are answered
		}
		return w.Between(0, 40*second)
	}
	return w.Between(milli/20, milli)
}

// LeastVersion returns the oldest version of the rules by which a daemon decides, or will decide when it
// starts with its region's state file, if it is older than another one.
func (w *Regions) LeastVersion(than uint64) uint64 {
	for _, n := range w.Nodes {
		if n.Version != 0 {
			than = min(than, n.Version)
		}
	}
	for _, file := range w.known {
		if len(file.cfg.Regions) > 0 && file.rules != 0 {
			than = min(than, file.rules)
		}
	}
	return than
}
