// Package promise computes what the regions together promise of a limit: the most that they admit above
// it, and the most that a client may lack of it. It is pure arithmetic on the rules of package budget.
package promise

import (
	"math"
	"math/bits"
	"time"

	"aliquot/budget"
)

// Enforcement says how the regions' parts of one limit are kept together.
type Enforcement uint8

// The enforcements; see docs/reference/protocol.md.
const (
	// Strict: all regions together stay within the limit.
	Strict Enforcement = iota
	// Elastic: the rate is as exact as in Strict, but a cold key has its whole burst in every
	// region.
	Elastic
	// Independent: every region enforces the whole limit by itself.
	Independent
)

// Counting says what a limit counts.
type Counting uint8

// The values of Counting.
const (
	// Tokens of a bucket, which earns them over time.
	Tokens Counting = iota
	// Windows of the stores' clocks, fixed or as a sliding estimate. The windows of two stores may
	// be one apart.
	Windows
	// Log of admissions: the limit holds in every window of time.
	Log
	// Slots in use at a time.
	Slots
)

// Terms are the inputs of a limit's promise.
type Terms struct {
	Limit budget.KeyLimit
	// Counts is what the limit counts. Everything except Tokens is enforced as Strict, even if
	// Enforcement is Elastic. Its Limit.Rate is the capacity a window.
	Counts      Counting
	Enforcement Enforcement
	// Forgives: a key starts afresh if a region's store has lost its contents and nothing is known.
	Forgives bool
	Config   *budget.Config
	// RoundTrip is the largest round trip between the leader and a region that is heard. Quorum is
	// the time of a commit. Either is negative until it was measured.
	RoundTrip time.Duration
	Quorum    time.Duration
	// Pace is the largest Report.Pace of a region that is heard; 0 stands for the shortest one.
	Pace time.Duration
	// Silent says by index which regions the leader does not hear. Regions beyond its end are
	// heard.
	Silent []bool
}

// Promise is the worst that a limit can do: to those it protects (excess) and to those it limits
// (shortfall). Amounts are micro-tokens, rates micro-tokens a second. What may be lost is rounded
// up, what is guaranteed is rounded down. The shortfall is measured against one ideal bucket for
// the whole world and a client that asks for all it may. It assumes that nothing fails except what
// a field names.
type Promise struct {
	// Counts is what the limit counts.
	Counts Counting

	// All regions together admit at most Burst + Rate x t in any t seconds. Of Slots, Burst are in
	// use at a time and Rate is 0. Excess is the part of Burst above the limit's capacity. Moving
	// is the part of Excess that ends when the floors of all regions sum to the whole again.
	Burst, Rate    int64
	Excess, Moving int64
	// Forgiven is admitted besides, once for each time that a region's store loses its contents, at
	// most; 0 unless Terms.Forgives.
	Forgiven int64
	// Window is the most that all regions together admit in one window of the stores' clocks; 0
	// unless the limit counts Windows.
	Window int64

	// Measured: round trips and commits were measured. Otherwise the times, FirstTouch and Step are
	// 0 and mean nothing.
	Measured bool
	// ToHot is how long the share of a key that was idle everywhere takes to move to the region
	// that starts to use it. ToFollow is the same for a hot key whose use moves to another region.
	ToHot, ToFollow time.Duration
	// FirstTouch is what the region with the smallest floor refuses until then. Step is the same
	// for the region with the smallest connected floor.
	FirstTouch, Step int64

	// SteadyRate and SteadyBurst are out of reach of a single busy region while all regions are
	// connected: what the others keep, and the dead band of moves.
	SteadyRate, SteadyBurst int64
	// SilentRate is out of its reach while one other region is silent, the one with the largest
	// floor. SilentNow is reserved for the regions that are silent now.
	SilentRate, SilentNow int64

	// A region that is cut off after it has lent all it lends goes on at KeptRate or more, for at
	// most CutOff. Then it goes on at FloorRate or more, from an empty bucket.
	KeptRate, FloorRate int64
	CutOff              time.Duration
	// CutOffBurst is what such a region has lent of its floor's burst and so cannot serve for that
	// long. Of a counting limit it is that many requests of the region's part of a window.
	CutOffBurst int64

	// Turn is the longest wait of a region for a limit that has a home, while all others are busy
	// with it as well. It is 0 for any other limit.
	Turn time.Duration
}

// Promise returns what the code of this package guarantees under these terms.
func (t *Terms) Promise() Promise {
	p := Promise{Counts: t.Counts}
	t.excess(&p)
	if t.Enforcement == Independent {
		p.Measured = true // nothing moves, so the times are 0
		p.KeptRate = t.Limit.Rate
		p.FloorRate = t.Limit.Rate
		return p
	}
	t.reach(&p)
	t.waits(&p)
	return p
}

// excess sets the bounds of what is admitted.
func (t *Terms) excess(p *Promise) {
	c := t.Limit.Capacity
	p.Rate = t.rateWithin(budget.Unit)
	p.Rate += mulUp(p.Rate, int64(t.Config.RhoPPM), 1_000_000)
	regions, told := int64(t.Config.Holders()), int32(0)
	for i := range t.Config.Regions {
		told += t.Config.Regions[i].Told.Burst
	}
	if t.Counts == Windows {
		// In an instant a window ends and the next begins, on each of two clocks one apart. That
		// makes three windows, and in each of them all regions together stay within the capacity.
		p.Excess, p.Window = 2*c, c
	}
	switch {
	case t.Enforcement == Independent:
		regions = int64(Independents(t.Config))
		p.Excess = regions*(c+p.Excess) - c
		p.Rate *= regions
		p.Window *= regions
	case t.Enforcement == Elastic && t.Counts == Tokens:
		// Each region's cold bucket holds c. What it has above the floor stays when the key becomes
		// hot, and the floors' part may fill up to c in all.
		p.Moving = c - budget.Scale(c, min(told, budget.Unit))
		p.Excess = (regions-1)*c + p.Moving
	}
	if t.Counts == Slots {
		p.Rate = 0
	}
	p.Burst = c + p.Excess
	if t.Forgives {
		// No region holds more, and none has more in use.
		p.Forgiven = c
	}
}

// Independents returns how many regions may enforce a limit that is not coordinated, at least 1. A drained
// region enforces it as before, while its daemon runs: only a fenced one is known not to.
func Independents(c *budget.Config) int {
	n := 0
	for i := range c.Regions {
		if !c.Regions[i].Fenced {
			n++
		}
	}
	return max(n, 1)
}

// reach sets what a single busy region cannot reach, and what a region that is cut off keeps.
func (t *Terms) reach(p *Promise) {
	var keeps budget.Share
	minTold, maxFloor := budget.Share{Rate: budget.Unit, Burst: budget.Unit}, int32(0)
	minKept := budget.Share{Rate: budget.Unit, Burst: budget.Unit}
	silent := int32(0)
	for i := range t.Config.Regions {
		r := &t.Config.Regions[i]
		if r.Gone() {
			continue
		}
		keep := t.keep(r)
		p.CutOffBurst = max(p.CutOffBurst, mulUp(t.Limit.Capacity, int64(r.Told.Burst-keep.Burst), budget.Unit))
		keeps, minKept, minTold = keeps.Add(keep), minKept.Min(keep), minTold.Min(r.Told)
		maxFloor = max(maxFloor, r.Floor.Rate)
		if i < len(t.Silent) && t.Silent[i] {
			silent += r.Floor.Rate
		}
	}
	others := keeps.Sub(minKept)
	if t.Config.Homed(t.Limit) {
		p.Turn = time.Duration(t.Config.Holders()-1) * max(budget.BusyDwell, budget.TailsDwell*t.Limit.Tail)
	} else {
		others = others.Add(budget.Share{Rate: budget.MinMove + 1, Burst: budget.MinMove + 1})
	}
	p.SteadyRate = t.rateWithin(min(others.Rate, budget.Unit))
	p.SteadyBurst = mulUp(t.Limit.Capacity, int64(min(others.Burst, budget.Unit)), budget.Unit)
	p.SilentRate = t.rateWithin(min(others.Rate+maxFloor, budget.Unit))
	p.SilentNow = t.rateWithin(min(silent, budget.Unit))
	p.KeptRate = budget.Scale(t.Limit.Rate, minKept.Rate)
	p.FloorRate = budget.Scale(t.Limit.Rate, minTold.Rate)
	p.CutOff = t.Config.FloorAfter() + t.tail()
}

// keep returns what a region keeps of a key that it has lent.
func (t *Terms) keep(r *budget.RegionConfig) budget.Share {
	return t.Config.ConnectedFloor(r.Told, t.Limit)
}

// waits sets how long shares take to move, and what is refused meanwhile.
//
// Worked number: of 100 a second, with a round trip of 80 ms and commits of 10 ms, one exchange is
// 0.1 + 0.1 + 3 x 0.02 + 3 x 0.08 + 2 x 0.01 = 0.52 s, and a measurement of demand 0.25 s. ToHot =
// 0.25 + 2 x 0.52 = 1.29 s, ToFollow = 2 x 0.25 + 1.04 = 1.54 s.
func (t *Terms) waits(p *Promise) {
	if t.RoundTrip < 0 || t.Quorum < 0 {
		return
	}
	p.Measured = true
	measure := budget.QuietAfter(t.Limit, t.Pace)
	exchange := t.exchange()
	p.ToHot = measure + 2*exchange + t.held()
	p.ToFollow = 2*measure + 2*exchange + t.held()

	floor, kept := int32(budget.Unit), int32(budget.Unit)
	for i := range t.Config.Regions {
		if r := &t.Config.Regions[i]; !r.Gone() {
			floor, kept = min(floor, r.Told.Burst, r.Told.Rate), min(kept, t.keep(r).Burst)
		}
	}
	c, rate := t.Limit.Capacity, t.rateWithin(budget.Unit)
	held, earned := budget.Scale(c, floor), earnedIn(rate, p.ToHot)
	if t.Enforcement == Elastic && t.Counts == Tokens {
		held = c
	}
	p.FirstTouch = c + earned - held - budget.Scale(earned, floor)
	p.Step = max(0, earnedIn(rate, p.ToFollow)-budget.Scale(c, kept))
}

// tail returns how long use outlasts a share that has moved, which delays the move.
func (t *Terms) tail() time.Duration {
	if t.Limit.Tail == 0 {
		return 0
	}
	return t.Config.Lengthen(t.Limit.Tail)
}

// held returns how long use delays a share that moves. It is 0 where only unused parts move.
func (t *Terms) held() time.Duration {
	if t.Limit.LendsUnused() {
		return 0
	}
	return t.tail()
}

// exchange returns how long a share takes to move from the region that lends to the one that asks,
// once the leader knows both demands. The region's report waits for the answer to its previous one.
// Then come the shrink with its acknowledgement, and the growth, which waits for a report as well:
// three round trips. Added are a commit of what moves, a proof of leadership if a lease is due, and
// three pauses of the leader and the daemons.
func (t *Terms) exchange() time.Duration {
	return max(budget.ReportKeyEvery, t.Pace) + budget.AnswerHold + 3*budget.MinReportGap + 3*t.RoundTrip + 2*t.Quorum
}

// rateWithin returns a part of the limit's rate, rounded up.
func (t *Terms) rateWithin(part int32) int64 {
	rate := t.Limit.Rate
	if t.Limit.RateFrac > 0 {
		rate++
	}
	return mulUp(rate, int64(part), budget.Unit)
}

// earnedIn returns what a rate earns over d, rounded up.
func earnedIn(rate int64, d time.Duration) int64 { return mulUp(rate, int64(d), int64(time.Second)) }

// mulUp returns a*b/c rounded up, for a and b that are not negative. If the result does not fit, it
// returns the largest int64.
func mulUp(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	quotient, rest := bits.Div64(hi, lo, uint64(c))
	return int64(min(quotient+min(rest, 1), math.MaxInt64))
}
