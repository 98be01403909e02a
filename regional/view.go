package regional

import (
	"aliquot/budget"
	"aliquot/limit"
)

// header is what all views of one store call have in common.
type header struct {
	epoch      string
	phase      limit.Phase
	since      int64
	until      int64
	birth      int64
	floorSince int64
	heardWait  int64
	deadline   int64
	latest     budget.Instant // the deadline, on the daemon's clock
	stamp      uint32
}

// view words an ask's right for the store.
func (h *header) view(a *ask) limit.View {
	r, l := &a.right, a.limit
	v := limit.View{
		Hot: r.Hot, Gen: r.Watermark.Pack(),
		Floor: localBucket(l, r.Floor), FloorSince: h.floorSince,
		Phase: h.phase, Since: h.since, Until: h.until, HeardWait: h.heardWait, Deadline: h.deadline,
		Birth: h.birth, Stamp: h.stamp, Debit: a.debit,
	}
	if a.elastic() {
		v.Extra = l.Capacity - v.Floor.Cap
	}
	if h.floorSince != 0 {
		// While the daemon is blind its floor is smaller than any it was told.
		v.Low = localBucket(l, r.Low.Min(r.Floor))
	}
	if r.Blind && h.phase == limit.Floor && h.birth != 0 {
		v.Birth = max(h.birth, h.since)
		v.Blind, v.LimboFloor = true, localBucket(l, r.LimboFloor)
	}
	if r.Hot {
		v.Gen, v.Share = r.Gen.Pack(), localBucket(l, r.Share)
	}
	return v
}

// localBucket is a region's part of a limit, both parts rounded down.
func localBucket(l limit.Limit, s budget.Share) limit.Bucket { return l.Part(s.Burst, s.Rate) }

// phaseOf is the machine's phase in the store's words.
func phaseOf(p budget.Phase) limit.Phase {
	switch p {
	case budget.Live:
		return limit.Live
	case budget.CutOff:
		return limit.Floor
	default:
		return limit.Limbo
	}
}

// keyLimit is a limit as the protocol's messages carry it.
func keyLimit(l limit.Limit) budget.KeyLimit {
	return budget.KeyLimit{Capacity: int64(l.Capacity), Rate: l.Rate.Micro, RateFrac: l.Rate.Frac}
}

// limitOf is the reverse of keyLimit.
func limitOf(l budget.KeyLimit) limit.Limit {
	return limit.Limit{
		Capacity: limit.Tokens(l.Capacity),
		Rate:     limit.Rate{Micro: l.Rate, Frac: l.RateFrac},
	}
}

// wholeBucket is a limit as one bucket, for a check of its range.
func wholeBucket(l budget.KeyLimit) limit.Bucket {
	return limit.Bucket{Cap: limit.Tokens(l.Capacity), Rate: limit.Rate{Micro: l.Rate, Frac: l.RateFrac}}
}
