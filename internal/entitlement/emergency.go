package entitlement

import (
	"math/bits"
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

// WithoutStore returns the bucket by which a daemon decides while its store does not answer: what
// the region may hold of a key by a right, and what that earns by the daemon's own clock. That
// clock may run fast by rhoPPM millionths. The bucket of an elastic limit's cold key holds the
// whole capacity. For a counting limit the capacity is the rights.
func WithoutStore(r budget.Right, l limit.Limit, elastic bool, rhoPPM int64) limit.Bucket {
	b := Bucket(l, r.Effective())
	if elastic && !r.Hot && b.Cap > 0 && !l.Algorithm.Counts() {
		b.Cap = l.Capacity
	}
	b.Rate = slowed(b.Rate, rhoPPM)
	return b
}

// FormerWithoutStore returns what the bucket of WithoutStore held at most and earned at least until its limit changed, at
// revised at the earliest. Until slowUntil the store may have gone by either limit. The former bucket has no capacity if
// the limit may have changed at an unknown time before revised.
func FormerWithoutStore(r budget.Right, c Change, elastic bool, rhoPPM int64) (former limit.Bucket, revised, slowUntil budget.Instant) {
	former = Bucket(limit.Limit{Capacity: c.Small, Rate: c.Slow}, r.Effective())
	switch {
	case c.Cap == 0:
		former.Cap = 0
	case elastic && !r.Hot:
		former.Cap = c.Small
	}
	former.Rate = slowed(former.Rate, rhoPPM)
	return former, c.At.Add(-NoticedWithin), c.At.Add(LateUse)
}

// Returning returns the right that a daemon had to a key when its last run stopped, as far as it counts now. It is for a
// daemon that has come back, and was not told yet which keys are hot. A region that is away holds its floor, whatever
// share it had. So a record holds what was left of it up to the floor's part. It earned at the smaller of the rates of
// that share and the floor. Any other right is returned as it is.
func Returning(r budget.Right) budget.Right {
	if !r.Blind || r.Phase != budget.Limbo {
		return r
	}
	return budget.Right{Floor: r.Told, Told: r.Told, Low: r.Low, FloorSince: r.FloorSince, Phase: budget.Live}
}

// OwnSince returns since when the region has owned what a right allows without the store, if it may
// have been lent or was another floor before. 0: it always owned it.
func OwnSince(r budget.Right) budget.Instant {
	if r.Phase != budget.CutOff || !r.Blind && !r.Hot {
		return r.FloorSince
	}
	return max(r.Since, r.FloorSince)
}

// slowed returns a rate divided by 1 + rho, rounded down to whole micro-tokens a second.
func slowed(r limit.Rate, rhoPPM int64) limit.Rate {
	const million = 1_000_000
	hi, lo := bits.Mul64(uint64(r.Micro), million)
	micro, _ := bits.Div64(hi, lo, uint64(million+rhoPPM))
	return limit.Rate{Micro: int64(micro)}
}

// Room returns the least and the most that the store's bucket may hold by a right in any phase,
// without what a hot key earned when it was cold.
func Room(r budget.Right, l limit.Limit, elastic bool) (least, most limit.Tokens) {
	floor := Bucket(l, r.Floor).Cap
	if !r.Hot {
		if elastic {
			floor = max(floor, l.Capacity)
		}
		return floor, floor
	}
	share := Bucket(l, r.Share).Cap
	return min(share, floor), max(share, floor)
}

// TimeToFull returns how long an empty bucket of the least of a right takes to fill, with 2 % to
// spare. A debit later than that would find a full bucket. A bucket that never fills is full after 100
// years, as for a store; see limit.TTL. For a counting limit it is a day: the use of longer windows
// follows from the windows.
func TimeToFull(r budget.Right, l limit.Limit, elastic bool) time.Duration {
	if l.Algorithm.Counts() {
		return 24 * time.Hour
	}
	b := Bucket(l, r.Floor)
	if r.FloorSince != 0 {
		b.Rate = b.Rate.Min(Bucket(l, r.Low).Rate)
	}
	if elastic {
		b.Cap = l.Capacity
	}
	if r.Hot {
		share := Bucket(l, r.Share)
		b = limit.Bucket{Cap: max(b.Cap, share.Cap), Rate: b.Rate.Min(share.Rate)}
	}
	const longest = 100 * 365 * 24 * time.Hour
	perSecond := float64(b.Rate.Micro) + float64(b.Rate.Frac)/1e6
	seconds := float64(b.Cap) / perSecond * 1.02
	if !(seconds < longest.Seconds()) { // also a rate of 0
		return longest + time.Second
	}
	return time.Duration(seconds*float64(time.Second)) + time.Second
}
