package sim

import (
	"aliquot/budget"
	"aliquot/limit"
)

// localBucket is a region's part of a limit, both parts rounded down.
func localBucket(l limit.Limit, s budget.Share) limit.Bucket { return l.Part(s.Burst, s.Rate) }

// view words a right for the store, as the daemon does.
func (n *node) view(r budget.Right, c *client) limit.View {
	l := c.limit
	r = n.w.plant.right(n, r)
	v := limit.View{
		Hot: r.Hot, Gen: n.w.plant.pack(r.Watermark),
		Floor: localBucket(l, r.Floor),
		Stamp: limit.Stamp(n.epoch),
	}
	if c.elastic && n.hasFloor() {
		v.Extra = l.Capacity - v.Floor.Cap
	}
	if r.FloorSince != 0 {
		v.FloorSince, v.Low = n.clockMap.since(r.FloorSince), localBucket(l, r.Low.Min(r.Floor))
	}
	switch r.Phase {
	case budget.Live:
		v.Phase = limit.Live
	case budget.CutOff:
		v.Phase = limit.Floor
	}
	if r.Hot {
		v.Gen, v.Share = n.w.plant.pack(r.Gen), localBucket(l, r.Share)
	}
	if r.Until != 0 {
		v.Until = n.clockMap.until(r.Until)
	}
	if r.Since != 0 {
		v.Since = n.clockMap.since(r.Since)
	}
	if !n.machine.StoreStartedFull() {
		v.Birth = n.birth
		if v.Phase == limit.Floor {
			// New contents do not remember who was heard.
			v.Since = max(v.Since, n.birth+n.heardWait())
		}
		if r.Blind && v.Phase == limit.Floor {
			v.Birth = max(v.Birth, v.Since)
		}
	}
	if v.Phase == limit.Floor {
		v.HeardWait = n.heardWait()
		if r.Blind && v.Birth != 0 {
			v.Blind, v.LimboFloor = true, localBucket(l, r.LimboFloor)
		}
	}
	n.w.plant.view(&v, c)
	return v
}

// hasFloor: the region has, or had, a part in every limit. One that is drained keeps
// nothing of an elastic burst.
func (n *node) hasFloor() bool {
	cfg := n.machine.Config()
	return len(cfg.Regions) > 0 && cfg.Regions[n.region].Floor != budget.Share{}
}

// heardWait is how long the store must not have heard of a lease of any daemon of
// the region before the floor may be taken back, in its own clock, which may be fast.
func (n *node) heardWait() int64 {
	cfg := n.machine.Config()
	if len(cfg.Regions) == 0 {
		return 0
	}
	return stretch((cfg.FloorAfter()+budget.MarkEvery).Microseconds()+1, n.clockMap.rho)
}

func keyLimit(l limit.Limit) budget.KeyLimit {
	return budget.KeyLimit{Capacity: int64(l.Capacity), Rate: l.Rate.Micro, RateFrac: l.Rate.Frac}
}
