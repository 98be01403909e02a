package sim

import (
	"aliquot/budget"
	"aliquot/limit"
)

// localBucket is a region's part of a limit, both parts rounded down.
func localBucket(l limit.Limit, s budget.Share) limit.Bucket { return l.Part(s.Burst, s.Rate) }

// view words a right for the store, as the daemon does.
func (n *node) view(r budget.Right, l limit.Limit) limit.View {
	r = n.w.plant.right(n, r)
	v := limit.View{
		Hot: r.Hot, Gen: n.w.plant.pack(r.Watermark),
		Floor: localBucket(l, r.Floor),
		Stamp: limit.Stamp(n.epoch),
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
		if r.Blind && v.Phase == limit.Floor {
			v.Birth = max(v.Birth, v.Since)
		}
	}
	n.w.plant.view(&v)
	return v
}

func keyLimit(l limit.Limit) budget.KeyLimit {
	return budget.KeyLimit{Capacity: int64(l.Capacity), Rate: l.Rate.Micro, RateFrac: l.Rate.Frac}
}
