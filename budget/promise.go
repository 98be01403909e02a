package budget

import (
	"math"
	"math/bits"
	"time"
)

// Enforcement says how the regions' parts of one limit are held together.
type Enforcement uint8

// The enforcements; see docs/protocol.md.
const (
	// Strict: all regions together stay within the limit.
	Strict Enforcement = iota
	// Elastic: the rate is as exact, but a cold key has its whole burst in every
	// region.
	Elastic
	// Independent: every region enforces the whole limit by itself.
	Independent
)

// Counting says what a limit counts.
type Counting uint8

// What limits count.
const (
	// Tokens of a bucket, which are earned with time.
	Tokens Counting = iota
	// Windows of the stores' clocks, by themselves or as a sliding estimate. Two stores'
	// windows may be one apart.
	Windows
	// Log of admissions: as much in any window of time.
	Log
	// Slots in use at a time.
	Slots
)

// Terms are what the promise of a limit is computed from.
type Terms struct {
	Limit KeyLimit
	// Counts is what the limit counts. All but Tokens are enforced as strict even if
	// Enforcement is Elastic; their Limit.Rate is the capacity a window.
	Counts      Counting
	Enforcement Enforcement
	Config      *Config
	// RoundTrip is the largest round trip between the leader and any region that is
	// heard, Quorum what a commit takes. Either is negative before it was measured.
	RoundTrip time.Duration
	Quorum    time.Duration
	// Pace is the largest Report.Pace of a region that is heard; the shortest is taken for
	// 0.
	Pace time.Duration
	// Silent tells by index which regions the leader does not hear; those beyond its
	// end are heard.
	Silent []bool
}

// Promise is the worst that a limit can do to those whom it protects (excess) and to
// those whom it limits (shortfall). Amounts are micro-tokens, rates micro-tokens a
// second; what may be lost is rounded up, what is guaranteed down. The shortfall is
// against one ideal bucket for the whole world, while nothing fails but what a field
// names, and for a client that asks for all it may.
type Promise struct {
	// Counts is what the limit counts.
	Counts Counting

	// All regions together admit at most Burst + Rate x t in any t seconds; of Slots,
	// Burst are in use at a time and Rate is 0. Excess is the part of Burst above the
	// limit's capacity, and Moving the part of Excess that goes away when the floors of all
	// regions sum to the whole again.
	Burst, Rate    int64
	Excess, Moving int64
	// Window is what all regions together admit in one window of the stores' clocks at
	// most; 0 unless the limit counts Windows.
	Window int64

	// Measured: round trips and commits have been measured. Without, the times and
	// what follows from them, FirstTouch and Step, are 0 and mean nothing.
	Measured bool
	// ToHot is how long the share of a key that was idle everywhere needs to move to
	// the region that has begun to use it, ToFollow that of a hot key whose use turns
	// to another region.
	ToHot, ToFollow time.Duration
	// FirstTouch is refused until then in the region with the smallest floor, Step in
	// the region with the smallest connected floor.
	FirstTouch, Step int64

	// SteadyRate and SteadyBurst are out of reach of a lone busy region while all are
	// connected: what the others keep, and the dead band of moves.
	SteadyRate, SteadyBurst int64
	// SilentRate is out of its reach while one other region, that with the largest
	// floor, is silent; SilentNow is reserved for those that are silent now.
	SilentRate, SilentNow int64

	// A region that has lent all it lends and is cut off goes on at KeptRate at least,
	// for at most CutOff, then at FloorRate at least, from an empty bucket.
	KeptRate, FloorRate int64
	CutOff              time.Duration
	// CutOffBurst is what such a region has lent of its floor's burst, and so cannot serve for that
	// long: of a limit that counts, that many requests of its part of a window.
	CutOffBurst int64

	// Turn is how long a region waits at most for a limit that has a home while all
	// others are busy with it as well; 0 for any other limit.
	Turn time.Duration
}

// Promise is what the code of this package keeps under these terms.
func (t *Terms) Promise() Promise {
	p := Promise{Counts: t.Counts}
	t.excess(&p)
	if t.Enforcement == Independent {
		p.Measured = true // nothing moves, so nothing is waited for
		p.KeptRate = t.Limit.Rate
		p.FloorRate = t.Limit.Rate
		return p
	}
	t.reach(&p)
	t.waits(&p)
	return p
}

// excess fills in the bounds of what is admitted.
func (t *Terms) excess(p *Promise) {
	c := t.Limit.Capacity
	p.Rate = t.rateWithin(Unit)
	p.Rate += mulUp(p.Rate, int64(t.Config.RhoPPM), 1_000_000)
	regions, told := int64(t.Config.Holders()), int32(0)
	for i := range t.Config.Regions {
		told += t.Config.Regions[i].Told.Burst
	}
	if t.Counts == Windows {
		// In no time a window ends and the next begins, on each of two clocks one apart:
		// three windows, each of which is within the capacity everywhere together.
		p.Excess, p.Window = 2*c, c
	}
	switch {
	case t.Enforcement == Independent:
		p.Excess = regions*(c+p.Excess) - c
		p.Rate *= regions
		p.Window *= regions
	case t.Enforcement == Elastic && t.Counts == Tokens:
		// Each region's cold bucket holds c. What of it is above the floor stays when the
		// key becomes hot, and the floors' part may fill to c in all.
		p.Moving = c - Scale(c, min(told, Unit))
		p.Excess = (regions-1)*c + p.Moving
	}
	if t.Counts == Slots {
		p.Rate = 0
	}
	p.Burst = c + p.Excess
}

// Holders counts the regions that may hold tokens of a limit; 1 if there are none.
func (c *Config) Holders() int {
	n := 0
	for i := range c.Regions {
		if r := &c.Regions[i]; r.Takes() || !r.gone() {
			n++
		}
	}
	return max(n, 1)
}

// reach fills in what a lone busy region cannot reach, and what one that is cut off
// keeps.
func (t *Terms) reach(p *Promise) {
	var keeps Share
	least, largest := Share{Rate: Unit, Burst: Unit}, int32(0)
	kept := Share{Rate: Unit, Burst: Unit}
	silent := int32(0)
	for i := range t.Config.Regions {
		r := &t.Config.Regions[i]
		if r.gone() {
			continue
		}
		keep := t.keep(r)
		p.CutOffBurst = max(p.CutOffBurst, mulUp(t.Limit.Capacity, int64(r.Told.Burst-keep.Burst), Unit))
		keeps, kept, least = keeps.Add(keep), kept.Min(keep), least.Min(r.Told)
		largest = max(largest, r.Floor.Rate)
		if i < len(t.Silent) && t.Silent[i] {
			silent += r.Floor.Rate
		}
	}
	others := keeps.Sub(kept)
	if t.Config.Homed(t.Limit) {
		p.Turn = time.Duration(t.Config.Holders()-1) * max(busyDwell, tailsDwell*t.Limit.Tail)
	} else {
		others = others.Add(Share{Rate: minMove + 1, Burst: minMove + 1})
	}
	p.SteadyRate = t.rateWithin(min(others.Rate, Unit))
	p.SteadyBurst = mulUp(t.Limit.Capacity, int64(min(others.Burst, Unit)), Unit)
	p.SilentRate = t.rateWithin(min(others.Rate+largest, Unit))
	p.SilentNow = t.rateWithin(min(silent, Unit))
	p.KeptRate = Scale(t.Limit.Rate, kept.Rate)
	p.FloorRate = Scale(t.Limit.Rate, least.Rate)
	p.CutOff = t.Config.FloorAfter() + t.tail()
}

// keep is what a region keeps of a key that it has lent.
func (t *Terms) keep(r *RegionConfig) Share { return ConnectedFloor(r.Told, t.Limit) }

// waits fills in how long shares need to move, and what is refused meanwhile.
//
// Worked number: of 100 a second, with a round trip of 80 ms and commits of 10 ms,
// one exchange is 0.1 + 0.1 + 3 x 0.02 + 3 x 0.08 + 2 x 0.01 = 0.52 s, a measurement
// of demand 0.25 s. ToHot = 0.25 + 2 x 0.52 = 1.29 s, ToFollow = 2 x 0.25 + 1.04 =
// 1.54 s.
func (t *Terms) waits(p *Promise) {
	if t.RoundTrip < 0 || t.Quorum < 0 {
		return
	}
	p.Measured = true
	measure := quietAfter(t.Limit, t.Pace)
	exchange := t.exchange()
	p.ToHot = measure + 2*exchange + t.held()
	p.ToFollow = 2*measure + 2*exchange + t.held()

	floor, kept := int32(Unit), int32(Unit)
	for i := range t.Config.Regions {
		if r := &t.Config.Regions[i]; !r.gone() {
			floor, kept = min(floor, r.Told.Burst, r.Told.Rate), min(kept, t.keep(r).Burst)
		}
	}
	c, rate := t.Limit.Capacity, t.rateWithin(Unit)
	held, earned := Scale(c, floor), earnedIn(rate, p.ToHot)
	if t.Enforcement == Elastic && t.Counts == Tokens {
		held = c
	}
	p.FirstTouch = c + earned - held - Scale(earned, floor)
	p.Step = max(0, earnedIn(rate, p.ToFollow)-Scale(c, kept))
}

// tail is how long what was used outlasts a share that has moved, and so delays it.
func (t *Terms) tail() time.Duration {
	if t.Limit.Tail == 0 {
		return 0
	}
	return t.Config.lengthen(t.Limit.Tail)
}

// held is how long what was used delays a share that moves: not at all where nothing moves but
// what is unused.
func (t *Terms) held() time.Duration {
	if t.Limit.lendsUnused() {
		return 0
	}
	return t.tail()
}

// exchange is how long a share needs from the region that lends to the one that
// asks, once the leader knows both demands: a report that has to wait for the answer
// to the one before it, the shrink and its acknowledgement, and the growth, which
// waits for a report as well: three round trips; a commit of what moves, and a proof
// of leadership if a lease is due; and three pauses of the leader and the daemons.
func (t *Terms) exchange() time.Duration {
	return max(reportKeyEvery, t.Pace) + AnswerHold + 3*minReportGap + 3*t.RoundTrip + 2*t.Quorum
}

// rateWithin is a part of the limit's rate, rounded up.
func (t *Terms) rateWithin(part int32) int64 {
	rate := t.Limit.Rate
	if t.Limit.RateFrac > 0 {
		rate++
	}
	return mulUp(rate, int64(part), Unit)
}

// earnedIn is what a rate earns over d, rounded up.
func earnedIn(rate int64, d time.Duration) int64 { return mulUp(rate, int64(d), int64(time.Second)) }

// mulUp is a*b/c rounded up, for a and b that are not negative; the largest number
// there is if it does not fit.
func mulUp(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	quotient, rest := bits.Div64(hi, lo, uint64(c))
	return int64(min(quotient+min(rest, 1), math.MaxInt64))
}
