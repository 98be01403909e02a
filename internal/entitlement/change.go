package entitlement

import (
	"math/bits"
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

// LateUse is for how long after a daemon adopted a limit its store may still decide by the earlier
// limit: for calls in flight, and for other daemons of the region that learn of the change a little
// later. A cold record is kept a second longer than it needs to fill, which covers what it may have
// lost in that time.
const LateUse = time.Second

// NoticedWithin is how long before Change.At the limit may have changed: so often does a daemon look whether an override
// has ended. If it has not looked for longer, the time of the change is unknown.
const NoticedWithin = 500 * time.Millisecond

// Change is what a daemon remembers of a change of a whole limit. Records that were last used
// before the change were kept for as long as the earlier limit said, and have earned by that one.
// The zero value is a limit that has not changed.
type Change struct {
	// At is when the daemon adopted the present limit.
	At budget.Instant
	// Slow is the slowest rate that the limit has had, and Small its smallest capacity.
	Slow  limit.Rate
	Small limit.Tokens
	// Cap and Rate describe a bucket whose record has expired: at At it held at least Cap, less
	// what Rate earns from At on. A Cap of limit.MaxTokens stands for a full bucket; the limit was
	// only raised then. For a counting limit, Cap is the most that may be in use.
	Cap  limit.Tokens
	Rate limit.Rate
}

// Then returns what to remember when a limit changes at an instant. floor is the smallest share of
// the limit that a cold bucket of the region may have. An elastic limit has the whole capacity.
//
// Worked number: 90 tokens at 30 a second become 60 at 20, and 5 s later 90 at 30 again. A record
// that expired by the first limit, and may have been empty at the first change, has earned 20 x (5 -
// LateUse) = 80 tokens since, of which 60 fit. One that expired by the second limit was full by it,
// or lacks what Rate earns from the second change on.
func (c Change) Then(from, to limit.Limit, floor budget.Share, elastic bool, at budget.Instant) Change {
	if from == to {
		return c
	}
	if c.Settled(from, floor, elastic, at) {
		c = Change{}
	}
	if to.Algorithm.Counts() {
		return c.thenCounted(from, to, at)
	}
	raised := to.Capacity >= from.Capacity && to.Rate.Min(from.Rate) == from.Rate
	next := Change{At: at, Slow: from.Rate, Small: from.Capacity, Cap: min(from.Capacity, limit.MaxTokens-1), Rate: from.Rate}
	switch {
	case c.At != 0:
		earned := earnedBetween(c.At.Add(LateUse), at, from, floor, elastic)
		c = c.forward(at)
		next.Slow, next.Small, next.Rate = next.Slow.Min(c.Slow), min(next.Small, c.Small), faster(next.Rate, c.Rate)
		if next.Cap = min(c.Cap+earned, next.Cap); raised && c.Cap == limit.MaxTokens {
			next.Cap = c.Cap
		}
	case raised:
		next.Cap = limit.MaxTokens
	}
	return next
}

// thenCounted is Then for a counting limit. It matters only whether a window has grown, because
// records were kept for as long as the shorter window counts.
func (c Change) thenCounted(from, to limit.Limit, at budget.Instant) Change {
	c.Cap = max(c.Cap, from.Capacity)
	switch {
	case to.Algorithm.Logs():
		return Change{}
	case to.Window > from.Window:
		return Change{At: at, Cap: c.Cap}
	case c.At == 0:
		return Change{}
	}
	return c
}

// UnknownChange returns the change of a limit about which nothing is known before an instant.
func UnknownChange(at budget.Instant, counts bool) Change {
	if counts {
		return Change{At: at, Cap: limit.MaxTokens - 1}
	}
	return Change{At: at}
}

// Unknown returns the change for an At that may be later than the true one. What is lost since
// cannot be known.
func (c Change) Unknown(counts bool) Change {
	if !counts && c.Cap < limit.MaxTokens {
		c.Cap = 0
	}
	return c
}

// forward returns what is known at a later instant, without what was earned since.
func (c Change) forward(at budget.Instant) Change {
	if c.Cap < limit.MaxTokens && at != c.At {
		c.Cap = max(0, c.Cap-earnedIn(c.Rate, at.Sub(c.At)))
	}
	c.At = at
	return c
}

// Or returns what is known of a bucket for which either change may be true.
func (c Change) Or(other Change, counts bool) Change {
	switch {
	case c.At == 0:
		return other
	case other.At == 0:
		return c
	case counts:
		return Change{At: max(c.At, other.At), Cap: max(c.Cap, other.Cap)}
	}
	at := max(c.At, other.At)
	c, other = c.forward(at), other.forward(at)
	return Change{At: at, Slow: c.Slow.Min(other.Slow), Small: min(c.Small, other.Small), Cap: min(c.Cap, other.Cap), Rate: faster(c.Rate, other.Rate)}
}

// Settled reports whether the change no longer affects a limit that has been l since. Every bucket
// has then had time to fill, and nothing that was in use before counts.
func (c Change) Settled(l limit.Limit, floor budget.Share, elastic bool, now budget.Instant) bool {
	return c.At == 0 || now.Sub(c.At) > Memory(l, floor, elastic)
}

// Memory returns how long records of a limit's cold keys last, with some time to spare. So long a
// change to or from the limit matters. It is at most 200 years.
func Memory(l limit.Limit, floor budget.Share, elastic bool) time.Duration {
	const most = 200 * 365 * 24 * time.Hour
	lasts := float64(2 * l.Window)
	if !l.Algorithm.Counts() {
		b := Bucket(l, floor)
		if elastic {
			b.Cap = l.Capacity
		}
		lasts = float64(b.Cap) / (float64(b.Rate.Micro) + float64(b.Rate.Frac)/1e6) * 1e9
	}
	if lasts = lasts*1.1 + 5e9; !(lasts < float64(most)) { // also a rate of 0
		return most
	}
	return time.Duration(lasts)
}

// Changed adds what is remembered of a limit's change to a view of the limit. r is the right from
// which the view was made. since is the store's time from which on only the present limit holds.
func (f *Frame) Changed(v *limit.View, c Change, since int64, r budget.Right, elastic bool) {
	floor := r.Floor
	if f.blind && f.phase == limit.Limbo {
		floor = r.Told
	}
	before := limit.Limit{Algorithm: v.Algorithm, Capacity: c.Cap, Rate: c.Rate}
	v.RuleSince = since
	if v.Algorithm.Counts() {
		v.Before.Cap = Bucket(before, floor).Cap
		return
	}
	v.Before = Bucket(before, floor)
	part := floor
	switch {
	case !r.Hot:
	case f.phase == limit.Live:
		part = r.Share
	case f.phase == limit.Limbo:
		part = part.Min(r.Share)
	}
	if f.floorSince != 0 {
		part = part.Min(r.Low)
		floor = r.Low.Min(floor)
		// A larger floor was full sooner.
		v.Before = limit.Bucket{Cap: Bucket(before, floor).Cap, Rate: c.Rate}
	}
	v.Slow = Bucket(limit.Limit{Rate: c.Slow}, part).Rate
	if c.Cap == limit.MaxTokens || elastic && f.hasFloor {
		v.Before.Cap = c.Cap
	}
}

// Held adds what a daemon knows of a key to a view of its changed limit, for the case that the key has no record. At an
// instant the key's bucket held at least that many tokens, or that much at most was in use of a counting limit. A full
// bucket stays full until its next use.
//
// Worked number: 100 tokens that filled at 10 a second fill at 1 a second since 30 s. A client had spent 95 of them 20 s
// before that change, so it has 100. Without what the daemon knows it would have 30.
func Held(v *limit.View, c Change, held limit.Tokens, at budget.Instant) {
	since := at.Sub(c.At)
	switch {
	case v.Algorithm.Counts():
		v.Before.Cap = min(v.Before.Cap, held)
	case held >= v.Cold().Cap:
		v.Before = limit.Bucket{Cap: limit.MaxTokens}
	default:
		// What the present rate has earned since is added by the store.
		then := held - earnedIn(v.Cold().Rate, since)
		if then > v.Before.Cap-earnedIn(v.Before.Rate, since) && then > 0 {
			v.Before = limit.Bucket{Cap: then}
		}
	}
}

// earnedBetween returns the least that a bucket of a limit has earned between two instants, as part
// of a Change's Cap. The part of a floor in Cap is that of its burst, so a smaller rate counts in
// proportion. An elastic limit's Cap is no part, so there the floor's rate counts. Another clock may
// show up to a tenth more than the store's.
func earnedBetween(from, to budget.Instant, l limit.Limit, floor budget.Share, elastic bool) limit.Tokens {
	part := int32(budget.Unit)
	switch {
	case elastic:
		part = floor.Rate
	case floor.Rate < floor.Burst:
		part = int32(int64(budget.Unit) * int64(floor.Rate) / int64(floor.Burst))
	}
	us := max(0, to.Sub(from).Microseconds())
	hi, lo := bits.Mul64(uint64(l.Part(0, part).Rate.Micro), uint64(us-us/11-min(us, 1)))
	if hi >= 1_000_000 {
		return limit.MaxTokens
	}
	q, _ := bits.Div64(hi, lo, 1_000_000)
	return limit.Tokens(min(q, uint64(limit.MaxTokens)))
}

func faster(a, b limit.Rate) limit.Rate {
	if a.Min(b) == a {
		return b
	}
	return a
}

// earnedIn returns what a rate earns in a time, rounded up, at most limit.MaxTokens. The clock of
// that time may show up to a tenth less than another one.
func earnedIn(r limit.Rate, d time.Duration) limit.Tokens {
	us := max(0, d.Microseconds()) + 1
	us += us/10 + 1
	hi, lo := bits.Mul64(uint64(r.Micro)+1, uint64(us))
	if hi >= 1_000_000 {
		return limit.MaxTokens
	}
	q, _ := bits.Div64(hi, lo, 1_000_000)
	return limit.Tokens(min(q+1, uint64(limit.MaxTokens)))
}
