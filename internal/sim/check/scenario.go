package check

import (
	"fmt"
	"time"

	"aliquot/budget"
	"aliquot/internal/rights"
	"aliquot/internal/sim/shell"
	"aliquot/limit"
)

// Scenario is one small world and what may happen in it.
type Scenario struct {
	Name string
	// What it is about, in words.
	About string
	// Regions is 2 or 3.
	Regions int
	Limit   limit.Limit
	Elastic bool
	// Homed: the limit is not split but held by one region at a time. (It would be by
	// default, for it is tiny.)
	Homed  bool
	Lease  time.Duration
	RhoPPM int32
	// Quantum is by how much time passes at once.
	Quantum time.Duration
	// Fast and Slow are the machines whose clocks run as fast, or slow, as rho allows;
	// the others run true.
	Fast, Slow Machines
	// Root brings the new world to where the search begins; nil: nowhere.
	Root func(w *world)
	// Faults are the kinds that may happen, and Budget how many in all; Turns is how
	// often another division may be asked for.
	Faults uint64
	Budget int
	Turns  int
	// Small: there is so little that may happen that a search ends by itself, within smallStates.
	Small bool
	// At are the regions to which faults happen; 0: to all. Bit i is region i.
	At uint8
	// Every order of messages is searched, not only that in which all reports come
	// first and all answers last.
	AnyOrder bool
	// Chunks: daemons take tokens from their stores in advance, all they get.
	Chunks bool
	// Greedy: every region spends all the time, whoever the limit is given to.
	Greedy bool

	divisions []budget.Divide
	// For tests, which break something on purpose: by how much clocks really differ, if
	// not by RhoPPM; what becomes of a view; that a deposed leader gets its proofs, or
	// proves itself by older answers; and that nobody knows that use outlasts a right.
	driftPPM   int32
	spoil      func(*node, *limit.View)
	noProof    bool
	olderProof bool
	noTail     bool
}

// Machines is a set of machines, as bits.
type Machines uint8

// The machines of a scenario: daemons and stores by region.
const (
	DaemonA Machines = 1 << iota
	DaemonB
	DaemonC
	StoreA
	StoreB
	StoreC
	Leader
)

// prepare fills in what the scenario does not say.
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
	// In steps of ten parts per million, so that a quantum, of tenths of a second, is a
	// whole number of microseconds on every clock: a world that comes around to where it
	// was is the same to the digit.
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

// storeClock: windows are counted by clocks that tell the time of day, and agree at the
// beginning; other stores' clocks have nothing in common.
func (sc *Scenario) storeClock(i int) shell.Clock {
	offset := 10 * time.Hour
	if !sc.Limit.Algorithm.Counts() {
		offset += time.Duration(i) * time.Hour
	}
	return sc.clock(StoreA<<i, offset)
}

func (sc *Scenario) leaderClock() shell.Clock { return sc.clock(Leader, 20*time.Hour) }

// none and all are divisions beside those that give all to one region: nobody asks for
// anything, and everybody does.
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

// spends reports whether a region is asked for all it can give.
func (sc *Scenario) spends(want int8, region int) bool {
	return sc.Greedy || want == sc.all() || int(want) == region
}

// keyLimit is the limit as the machines know it.
func (sc *Scenario) keyLimit() budget.KeyLimit {
	l := rights.KeyLimit(sc.Limit)
	l.Placement = budget.PlacementSplit
	if sc.noTail {
		l.Tail = 0
	}
	if sc.Homed {
		l.Placement = budget.PlacementHome
	}
	return l
}

// most is what the ideal bucket holds at most: one burst, of an elastic limit one for
// each region.
func (sc *Scenario) most() int64 {
	if sc.Elastic {
		return int64(sc.Regions) * int64(sc.Limit.Capacity)
	}
	return int64(sc.Limit.Capacity)
}

// earned is what the ideal bucket earns in a true time: the rate of the fastest clock
// that rho allows, rounded up.
func (sc *Scenario) earned(ns int64) int64 {
	const second = int64(time.Second)
	fast := sc.Limit.Rate.Micro + sc.Limit.Rate.Micro*shell.Fastest(sc.RhoPPM)/second + 1
	return fast*(ns/second) + fast*(ns%second)/second + 1
}

// slack pays for what a correct system may be ahead by: a store's clock shows whole
// microseconds, so each region can be one microsecond of its rate early, twice.
func (sc *Scenario) slack() int64 {
	return int64(2*sc.Regions)*sc.Limit.Rate.Micro/1_000_000 + int64(2*sc.Regions)
}

// division is the checker's own way to divide the key, the most extreme there is: what
// live regions do not keep goes to one of them, to nobody, or to all alike.
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
				out[i] = out[i].Min(c.Now) // not even that is there
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
