package shell

import (
	"aliquot/budget"
	"aliquot/limit"
)

// never is a store time that is not reached.
const never = limit.MaxExact

// Bucket is a region's part of a limit, both parts rounded down.
func Bucket(l limit.Limit, s budget.Share) limit.Bucket { return l.Part(s.Burst, s.Rate) }

// KeyLimit is a limit as the machines know it.
func KeyLimit(l limit.Limit) budget.KeyLimit {
	rate := l.PerSecond()
	return budget.KeyLimit{Capacity: int64(l.Capacity), Rate: rate.Micro, RateFrac: rate.Frac, Tail: l.Tail()}
}

// Daemon is what a daemon needs to know to word a right for its store.
type Daemon struct {
	Region int
	Config budget.Config
	// Contents of the store as this daemon knows them: Epoch names them, Birth is when
	// they began (microseconds of the store's clock), StartedFull as in budget.Region.
	Epoch       string
	Birth       int64
	StartedFull bool
	Clock       *ClockMap
}

// View words a right for the store, as the daemon does. An elastic limit's cold bucket
// holds all of the capacity; one that counts is strict whatever it says.
func (d *Daemon) View(r budget.Right, l limit.Limit, elastic bool) limit.View {
	v := limit.View{
		Hot: r.Hot, Gen: r.Watermark.Pack(),
		Algorithm: l.Algorithm, Window: l.Window.Microseconds(),
		Floor: Bucket(l, r.Floor),
		Stamp: limit.Stamp(d.Epoch),
	}
	if elastic && d.hasFloor() && !l.Algorithm.Counts() {
		v.Extra = l.Capacity - v.Floor.Cap
	}
	if r.FloorSince != 0 {
		v.FloorSince, v.Low = d.Clock.Since(r.FloorSince), Bucket(l, r.Low.Min(r.Floor))
	}
	switch r.Phase {
	case budget.Live:
		v.Phase = limit.Live
	case budget.CutOff:
		v.Phase = limit.Floor
	}
	if r.Hot {
		v.Gen, v.Share = r.Gen.Pack(), Bucket(l, r.Share)
	}
	if r.Until != 0 {
		v.Until = d.Clock.Until(r.Until)
	}
	if r.Since != 0 {
		v.Since = d.Clock.Since(r.Since)
	}
	if !d.StartedFull {
		v.Birth = d.Birth
		if v.Phase == limit.Floor {
			// New contents do not remember who was heard.
			v.Since = max(v.Since, d.Birth+d.heardWait(l))
		}
		if r.Blind && v.Phase == limit.Floor && !l.Algorithm.Counts() {
			// Tokens are earned from then on. Rights are there at once: what could be
			// in use has been waited for.
			v.Birth = max(v.Birth, v.Since)
		}
	}
	if v.Phase == limit.Floor {
		v.HeardWait = d.heardWait(l)
		if r.Blind && v.Birth != 0 {
			v.Blind, v.LimboFloor = true, Bucket(l, r.LimboFloor)
		}
	}
	return v
}

// hasFloor: the region has, or had, a part in every limit. One that is drained keeps
// nothing of an elastic burst.
func (d *Daemon) hasFloor() bool {
	return len(d.Config.Regions) > 0 && d.Config.Regions[d.Region].Floor != budget.Share{}
}

// heardWait is how long the store must not have heard of a lease of any daemon of
// the region before the floor may be taken back, in its own clock, which may be fast.
func (d *Daemon) heardWait(l limit.Limit) int64 {
	if len(d.Config.Regions) == 0 {
		return 0
	}
	return stretch((d.Config.FloorAfterUse(l.Tail())+budget.MarkEvery).Microseconds()+1, d.Clock.Rho)
}
