package check

import (
	"fmt"
	"time"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/internal/sim/shell"
	"aliquot/limit"
)

// Scenario is one small world and what may happen in it.
type Scenario struct {
	Name string
	// About describes the scenario.
	About string
	// Regions is 2 or 3.
	Regions int
	Limit   limit.Limit
	Elastic bool
	// Homed: one region at a time holds the limit. (That would be the default for a limit this
	// small.)
	Homed  bool
	Lease  time.Duration
	RhoPPM int32
	// Quantum is the length of one step of time.
	Quantum time.Duration
	// Fast and Slow are the hosts whose clocks run as fast, or as slow, as rho allows. The other
	// clocks show true time.
	Fast, Slow Machines
	// Root brings the new world to the state in which the search begins; nil: the initial state.
	Root func(w *world)
	// Faults are the kinds that may happen. Budget is how many may happen in all. Turns is how
	// often another division may be asked for.
	Faults uint64
	Budget int
	Turns  int
	// Small: so few things can happen that the search is exhausted within smallStates.
	Small bool
	// At are the regions in which faults happen, as bits (bit i is region i); 0: all.
	At uint8
	// AnyOrder: every order of messages is searched, not only the one in which all reports come
	// first and all answers last.
	AnyOrder bool
	// Chunks: daemons borrow all they can get from their stores.
	Chunks bool
	// Greedy: every region spends all the time, whichever region the limit is given to.
	Greedy bool

	divisions []budget.Divide
	// The following fields are for tests that break something on purpose. driftPPM is by how much
	// clocks really differ, if not by RhoPPM. spoil changes a view. With noProof a deposed leader
	// gets its proofs; with olderProof it proves itself by older answers. With noTail no state
	// machine knows that use outlasts a right.
	driftPPM   int32
	spoil      func(*node, *limit.View)
	noProof    bool
	olderProof bool
	noTail     bool
}

// Machines is a set of hosts, as bits.
type Machines uint8

// The hosts of a scenario: daemons and stores by region, and the leader.
const (
	DaemonA Machines = 1 << iota
	DaemonB
	DaemonC
	StoreA
	StoreB
	StoreC
	Leader
)

// prepare sets the fields that the scenario leaves out.
func (sc *Scenario) prepare() {
	if sc.driftPPM == 0 {
		sc.driftPPM = sc.RhoPPM
	}
	if sc.divisions == nil {
		for want := range sc.all() + 1 {
			sc.divisions = append(sc.divisions, sc.division(want))
		}
	}
	if sc.At == 0 {
		sc.At = 1<<sc.Regions - 1
	}
}

func (sc *Scenario) clock(m Machines, offset time.Duration) shell.Clock {
	c := shell.Clock{Offset: int64(offset)}
	// The drift is in steps of ten parts per million. A quantum, of tenths of a second, is then a
	// whole number of microseconds on every clock, and a world that returns to an earlier state is
	// exactly the same.
	switch {
	case sc.Fast&m != 0:
		c.Drift = shell.Fastest(sc.driftPPM) / 10_000 * 10_000
	case sc.Slow&m != 0:
		c.Drift = shell.Slowest(sc.driftPPM) / 10_000 * 10_000
	}
	return c
}

func (sc *Scenario) daemonClock(i int) shell.Clock {
	return sc.clock(DaemonA<<i, time.Duration(i+1)*time.Hour)
}

// storeClock returns the clock of a region's store. For counting limits the clocks show the time of
// day and agree at the beginning. For other limits they have nothing in common.
func (sc *Scenario) storeClock(i int) shell.Clock {
	offset := 10 * time.Hour
	if !sc.Limit.Algorithm.Counts() {
		offset += time.Duration(i) * time.Hour
	}
	return sc.clock(StoreA<<i, offset)
}

func (sc *Scenario) leaderClock() shell.Clock { return sc.clock(Leader, 20*time.Hour) }

// none and all are the divisions besides those that give everything to one region: no region asks
// for anything, or every region does.
func (sc *Scenario) none() int8 { return int8(sc.Regions) }
func (sc *Scenario) all() int8  { return int8(sc.Regions) + 1 }

func (sc *Scenario) wantName(want int8) string {
	switch want {
	case sc.none():
		return "nobody wants more"
	case sc.all():
		return "everybody wants more"
	default:
		return fmt.Sprintf("region %s wants all", regionName(int(want)))
	}
}

// spends reports whether clients ask a region for all it can give.
func (sc *Scenario) spends(want int8, region int) bool {
	return sc.Greedy || want == sc.all() || int(want) == region
}

// keyLimit returns the limit as the state machines know it.
func (sc *Scenario) keyLimit() budget.KeyLimit {
	l := entitlement.KeyLimit(sc.Limit)
	l.Placement = budget.PlacementSplit
	if sc.noTail {
		l.Tail = 0
	}
	if sc.Homed {
		l.Placement = budget.PlacementHome
	}
	return l
}

// most returns the most that the ideal bucket holds: one burst, or for an elastic limit one for
// each region.
func (sc *Scenario) most() int64 {
	if sc.Elastic {
		return int64(sc.Regions) * int64(sc.Limit.Capacity)
	}
	return int64(sc.Limit.Capacity)
}

// earned returns what the ideal bucket earns in a true time at the rate of the fastest clock that
// rho allows, rounded up.
func (sc *Scenario) earned(ns int64) int64 {
	const second = int64(time.Second)
	fast := sc.Limit.Rate.Micro + sc.Limit.Rate.Micro*shell.Fastest(sc.RhoPPM)/second + 1
	return fast*(ns/second) + fast*(ns%second)/second + 1
}

// slack covers what a correct system may be ahead by. A store's clock shows whole microseconds, so
// each region can be one microsecond of its rate early, twice.
func (sc *Scenario) slack() int64 {
	return int64(2*sc.Regions)*sc.Limit.Rate.Micro/1_000_000 + int64(2*sc.Regions)
}

// division returns the checker's own way to divide the key, which is the most extreme there is.
// The rest that live regions do not keep goes to one of them, to none, or to all in equal parts.
func (sc *Scenario) division(want int8) budget.Divide {
	return func(_ budget.KeyID, avail budget.Share, claims []budget.Claim) []budget.Share {
		out := make([]budget.Share, len(claims))
		var kept budget.Share
		live := int32(0)
		for i, c := range claims {
			switch {
			case c.Silent:
				out[i] = c.Now
			case !c.Draining:
				out[i] = c.Keep
				kept = kept.Add(c.Keep)
				live++
			}
		}
		left := avail.Sub(kept)
		if !(budget.Share{}).Within(left) {
			for i, c := range claims {
				out[i] = out[i].Min(c.Now) // not even that is available
			}
			return out
		}
		for i, c := range claims {
			switch {
			case c.Silent || c.Draining:
			case int(want) == i:
				out[i] = out[i].Add(left)
			case want == sc.all():
				out[i] = out[i].Add(budget.Share{Rate: left.Rate / live, Burst: left.Burst / live})
			}
		}
		return out
	}
}

func duration(ns int64) time.Duration { return time.Duration(ns) }
