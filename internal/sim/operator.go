package sim

import (
	"slices"
	"time"

	"aliquot/budget"
	"aliquot/internal/sim/faults"
)

// slowestFill returns how long any bucket takes to fill, or use to be forgotten.
func (w *world) slowestFill(cfg *budget.Config) (slowest time.Duration) {
	for _, r := range w.Rules {
		if r.Gone == 0 {
			slowest = max(slowest, cfg.FillTime(r.KeyLimit(r.Latest())), cfg.FillTime(r.KeyLimit(r.At(w.inForce(w.version), w.Now()))))
		}
	}
	return max(slowest, w.longestTail()) + time.Second
}

// advanceFloors proposes the next step of a change of floors as soon as it is due, as a coordinator
// does.
func (c *coord) advanceFloors() {
	if c.advancing {
		return
	}
	progress, due := c.steps.Due(c.machine, c.now())
	if !due {
		return
	}
	c.advancing = true
	d, version := c.w.logDelay(), c.cfg.Version
	c.w.After(d/2, func() {
		if c.leads() && !c.dead {
			c.w.command("floors advance", func(l *budget.Ledger) error {
				return l.AdvanceFloors(version, progress)
			})
		}
		c.w.After(d-d/2, func() { c.advancing = false })
	})
}

// command applies a change of regions or floors to the ledger. The leader notices it in the log and
// begins a new epoch.
func (w *world) command(what string, do func(*budget.Ledger) error) bool {
	if err := do(w.ledger); err != nil {
		return false
	}
	w.checkFloors()
	w.floorsMoved = w.floorsMoved || what != retimed
	w.VersionsChanged() // how many regions may hold a burst has changed too
	version := w.ledger.Config.Version
	w.Note(what, 0, int64(version), int64(len(w.ledger.Config.Regions)), int64(b2i(w.ledger.Config.Steady())), int64(b2i(w.ledger.Config.Settled())))
	if c := w.leader; c != nil {
		w.After(w.Between(0, 200*milli), c.when(func() {
			if c.leads() && c.cfg.Version < version {
				c.beginEpoch()
			}
		}))
	}
	return true
}

// regionName returns the name of a region by its index.
func regionName(i int) string { return string(rune('a' + i)) }

// operate lets the operator make one change, if one is possible.
func (w *world) operate(f faults.Kind, region int) bool {
	declared := w.ledger.Config.Regions
	switch f {
	case faults.AddRegion:
		return w.addRegion()
	case faults.DrainRegion:
		if region >= len(declared) || !declared[region].Takes() || w.lastRegion(region) {
			return false
		}
		w.propose("region drained", func(l *budget.Ledger) error { return l.DrainRegion(regionName(region)) })
	case faults.Reweight:
		weight := int32(w.Between(1, 8))
		if region >= len(declared) || !declared[region].Takes() {
			return false
		}
		w.propose("region reweighted", func(l *budget.Ledger) error { return l.UpdateRegion(regionName(region), weight) })
	case faults.FenceRegion:
		if region >= len(declared) || declared[region].Fenced || w.lastRegion(region) {
			return false
		}
		w.fence(region)
	case faults.Retime:
		w.retime()
	}
	return true
}

// retime changes the lease, or the bound on clock rates, or both. The clocks of this world keep the
// new bound.
func (w *world) retime() {
	cfg := &w.ledger.Config
	lease, rho := cfg.NextLease(), cfg.RhoPPM
	which := w.Rand.IntN(3)
	if which != 0 {
		lease = time.Duration(w.Between(int64(budget.MinLease), int64(longestSet)))
	}
	if which != 1 {
		rho = int32(w.Between(int64(w.Config.RhoPPM), min(2*int64(w.Config.RhoPPM), budget.MaxRhoPPM)))
	}
	w.propose(retimed, func(l *budget.Ledger) error { return l.SetTiming(lease, rho) })
}

// retimed is the only command that moves no floors.
const retimed = "timing changed"

// longestSet is the longest lease that an operator sets: a world has a minute to recover.
const longestSet = 12 * time.Second

// lastRegion reports whether no other region takes part.
func (w *world) lastRegion(region int) bool {
	for i := range w.ledger.Config.Regions {
		if r := &w.ledger.Config.Regions[i]; i != region && r.Takes() && r.Joined {
			return false
		}
	}
	return true
}

// propose adds an operator's command to the log, if there is a leader.
func (w *world) propose(what string, do func(*budget.Ledger) error) {
	w.After(w.logDelay(), func() {
		if w.leader != nil && !w.Faults.Over() {
			w.command(what, do)
		}
	})
}

// addRegion declares the first region that does not take part, if there is one, and starts its
// daemon if it has none.
func (w *world) addRegion() bool {
	i := slices.IndexFunc(w.ledger.Config.Regions, func(r budget.RegionConfig) bool { return !r.Takes() })
	if i < 0 {
		i = len(w.ledger.Config.Regions)
	}
	if i >= len(w.Stores) {
		return false
	}
	weight := int32(w.Between(1, 4))
	w.propose("region added", func(l *budget.Ledger) error {
		declared := len(l.Config.Regions)
		if i > declared {
			return budget.ErrUnknownRegion
		}
		fences := w.fences[i]
		if err := l.AddRegion(regionName(i), weight); err != nil {
			return err
		}
		w.declared = max(w.declared, i+1)
		w.After(w.Between(0, 10*second), func() {
			if w.fences[i] != fences {
				return
			}
			w.Buried[i] = false
			if w.NodeOf(i) == nil {
				w.StartNode(i, false, 0)
			}
		})
		return nil
	})
	return true
}

// fence kills every daemon of a region for good, and then informs the coordinators. The region's
// store is out of reach and its disks are gone.
func (w *world) fence(region int) {
	w.Bury(region)
	w.fences[region]++
	for n := w.NodeOf(region); n != nil; n = w.NodeOf(region) {
		w.Kill(n)
	}
	w.propose("region fenced", func(l *budget.Ledger) error { return l.FenceRegion(regionName(region)) })
}

// checkFloors checks I1 in the ledger for what regions enforce alone.
func (w *world) checkFloors() {
	var sum budget.Share
	for _, r := range w.ledger.Config.Regions {
		sum = sum.Add(r.Floor)
		if !r.Told.Within(r.Floor) || !r.Low.Within(r.Told) {
			w.violate("region %s: low %v, told %v, floor %v", r.Name, r.Low, r.Told, r.Floor)
		}
	}
	if !sum.Within(budget.Share{Rate: budget.Unit, Burst: budget.Unit}) {
		w.violate("floors sum to %v", sum)
	}
}

// longestTail returns the longest Tail of any limit.
func (w *world) longestTail() time.Duration {
	var longest time.Duration
	for _, r := range w.Rules {
		longest = max(longest, r.LongestTail())
	}
	return longest
}
