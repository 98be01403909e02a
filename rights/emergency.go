package rights

import (
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

// An emergency limit earns nine tenths of the region's right, to leave room for what
// the store was asked before it stopped answering.
const (
	emergencyNumerator   = 9
	emergencyDenominator = 10
)

// Emergency is the bucket, empty at first, by which a daemon decides while its store
// does not answer: nine tenths of its present right.
func Emergency(r budget.Right, l limit.Limit) limit.Bucket {
	s := r.Effective()
	s.Rate = s.Rate / emergencyDenominator * emergencyNumerator
	s.Burst = s.Burst / emergencyDenominator * emergencyNumerator
	return Bucket(l, s)
}

// TimeToFull is how long an empty bucket of the least of a right takes to fill, with
// 2 % to spare, at most a day: a debit later than that would find a full bucket.
func TimeToFull(r budget.Right, l limit.Limit, elastic bool) time.Duration {
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
	const longest = 24 * time.Hour
	perSecond := float64(b.Rate.Micro) + float64(b.Rate.Frac)/1e6
	seconds := float64(b.Cap) / perSecond * 1.02
	if !(seconds < longest.Seconds()) { // also a rate of 0
		return longest + time.Second
	}
	return time.Duration(seconds*float64(time.Second)) + time.Second
}
