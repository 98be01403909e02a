package budget

import (
	"math"
	"time"
)

// patience is the time, besides half a lease, in which a region must open a session and
// acknowledge. After it a step of a change of floors goes on with the regions that have
// acknowledged. Each step is a new epoch, which renews no lease for half a lease while a region is
// silent. So leases must be renewed before the next step begins.
const patience = 2 * time.Second

// FloorSteps decides, during one leader's epoch, when the next step of a change of floors or of
// timing is due. Each step changes the configuration, which ends the epoch; the next leader starts
// with a new FloorSteps. The zero value is not usable. It is not safe for concurrent use.
type FloorSteps struct {
	done  bool // no change is under way
	began Instant
	// held is the instant since which every region with a floor enforces it; 0: not yet.
	held       Instant
	fill, tail time.Duration
}

// NewFloorSteps returns the steps for an epoch that begins now under the configuration c.
func NewFloorSteps(c *Config, now Instant) FloorSteps {
	return FloorSteps{done: c.Steady() && c.Settled() && !c.Retiming(), began: now}
}

// SetRules sets how long the rules in force make a change wait. fill is how long the slowest bucket
// takes to fill at the smallest floor, on any store's clock. tail is the longest Tail of any limit.
// Time that the floors were held before the call does not count, because other rules were in force.
func (s *FloorSteps) SetRules(fill, tail time.Duration) { s.fill, s.tail, s.held = fill, tail, 0 }

// FillTime returns how long a bucket of a limit takes to fill from empty at the smallest floor, or
// use of a counting limit takes to be forgotten, by the slowest clock of a store. A bucket of an
// elastic rule holds the whole capacity, so that is what counts. A limit of 0 holds nothing.
func (c *Config) FillTime(l KeyLimit) time.Duration {
	seconds := l.Tail.Seconds()
	if l.Capacity > 0 {
		rate := (float64(l.Rate) + float64(l.RateFrac)/million) * float64(c.smallestFloor()) / Unit
		seconds = max(seconds, float64(l.Capacity)/rate)
	}
	seconds *= 1 + float64(c.RhoPPM)/million
	return time.Duration(min(seconds, maxFill.Seconds()) * float64(time.Second))
}

const million = 1_000_000

// maxFill is how long a bucket without a rate takes to fill.
const maxFill time.Duration = math.MaxInt64 / 4

// smallestFloor returns the smallest part of a rate that a region earns by a floor of its own.
func (c *Config) smallestFloor() int32 {
	least := int32(Unit)
	for i := range c.Regions {
		if floor := c.Regions[i].Told.Rate; floor > 0 {
			least = min(least, floor)
		}
	}
	return least
}

// Tail returns the longest Tail of any limit, as SetRules set it.
func (s *FloorSteps) Tail() time.Duration { return s.tail }

// Due returns the progress for the next step, and whether it is enough for one. No step is due
// while leases run that are longer than the ones granted now. A step would end the epoch, and the
// time those leases run is counted from the start of an epoch. So steps in quick succession would
// delay the change of timing by all of them.
func (s *FloorSteps) Due(l *Leader, now Instant) (Progress, bool) {
	if s.done {
		return Progress{}, false
	}
	acknowledged, all := l.acknowledgements(now, s.tail)
	if !all {
		s.held = 0
	} else if s.held == 0 {
		s.held = now
	}
	p := Progress{
		Acknowledged: acknowledged,
		Settled:      l.cfg.Steady() && !l.cfg.Settled() && s.held != 0 && now.Sub(s.held) >= s.fill,
		LeasesOver:   now.Sub(s.began) >= l.cfg.LeasesOver(),
	}
	if l.cfg.longerLeasesMayRun() && !p.LeasesOver {
		return p, false
	}
	patient := !all && now.Sub(s.began) < patience+l.cfg.Lease/2+l.cfg.adoptAfter(s.tail)
	return p, p.Settled || !patient && l.cfg.CanAdvance(p)
}

// acknowledgements returns the regions that enforce the floors of this configuration, and whether
// those are all regions that can be expected to.
func (l *Leader) acknowledgements(now Instant, tail time.Duration) (acknowledged []int, all bool) {
	all = true
	for i := range l.regions {
		switch status := l.Region(i, now, tail); {
		case status.Acknowledged:
			acknowledged = append(acknowledged, i)
		case !status.Absent:
			all = false
		}
	}
	return acknowledged, all
}
