package budget

import "time"

// A counting limit earns nothing while it is unused. Of a limit of 100 a day, what an idle region
// keeps for itself is refused to the region whose client asks. So what a region does not use of
// such a limit moves to the region that refuses requests, at once and whole. It moves back as
// easily: a shrink takes no more than what is unused, so no region waits for a window to pass.

// LendsUnused reports whether what a region does not use of a limit is lent whole. That is so for a
// counting limit whose rule does not ask for another placement.
func (l KeyLimit) LendsUnused() bool { return l.Tail > 0 && l.Placement == PlacementAuto }

// recentUse is the age up to which a region's use of a key counts as recent. Only then the region
// is left a part of what is unused.
const recentUse = time.Second

// lendUnused returns the shares of a limit that LendsUnused, by region, and whether they are worth
// the move. Only a refusal moves anything. A region that uses the key keeps what it has in use and
// a part of the rest by its demand. An idle region keeps its connected floor.
func (a allocation) lendUnused() (target []Share, move bool) {
	out := make([]Share, len(a.Regions))
	var live []int
	for i, c := range a.Regions {
		switch {
		case c.Silent:
			out[i] = c.Now
		case !c.Draining:
			live = append(live, i)
			out[i] = c.Now
		}
	}
	if a.short() {
		return allocate(a), true
	}
	if !a.rejecting() {
		return out, a.drains()
	}
	bursts, fits := a.unusedBursts(live)
	if !fits {
		return out, a.drains()
	}
	move = a.drains()
	for n, i := range live {
		next := Share{Rate: int32(bursts[n]), Burst: int32(bursts[n])}
		move = move || a.Regions[i].Demand.Rejecting && a.gains(a.Regions[i].Now, next)
		out[i] = next
	}
	return out, move
}

// gains reports whether the share after holds at least one whole request more than before, and half
// a percent of the limit more.
func (a allocation) gains(before, after Share) bool {
	return after.Burst-before.Burst >= MinMove/2 &&
		Scale(a.Capacity, after.Burst)/microToken > Scale(a.Capacity, before.Burst)/microToken
}

// unusedBursts divides the burst over the live regions. It returns false if not even what they keep
// fits.
func (a allocation) unusedBursts(live []int) ([]int64, bool) {
	avail := max(int64(a.Avail.Burst), 0)
	keep, weights := make([]int64, len(live)), make([]int64, len(live))
	for n, i := range live {
		c := &a.Regions[i]
		keep[n] = int64(c.Keep.Burst)
		if !c.Recent && !c.Demand.Rejecting {
			continue
		}
		weights[n] = max(c.Demand.Fast, 1)
		if !c.Demand.Known && c.Demand.Rejecting {
			weights[n] = Unit
		}
		keep[n] = max(keep[n], int64(partOf(c.Used, a.Capacity)))
	}
	if total(keep) > avail {
		return nil, false
	}
	if a.Capacity <= wholeRequests*microToken {
		return a.wholeBursts(avail, keep, weights), true
	}
	addAll(keep, apportion(avail-total(keep), weights))
	return keep, true
}

// usedOf returns how much of a limit a region has in use by its report. Where the limit is divided
// in whole requests it counts in those, because a part of a request is a right to nothing.
func usedOf(limit KeyLimit, rep *KeyReport) int64 {
	if rep.InUse > 0 {
		return Scale(limit.Capacity, rep.InUse)
	}
	rights := Scale(limit.Capacity, rep.Share.Burst)
	if limit.Capacity <= wholeRequests*microToken {
		rights -= rights % microToken
	}
	return max(0, rights-rep.Tokens)
}

// awaitsShrink reports whether a region that is heard has yet to report what it gives up of a key.
// That amount is added to what others give up, and all of it goes to the region that asks together.
// The wait lasts at most shrinkWait, because the region may be about to be lost.
func (l *Leader) awaitsShrink(key *leaderKey, now Instant) bool {
	if l.divide != nil || !key.limit.LendsUnused() || now.Sub(key.shrunk) >= shrinkWait {
		return false
	}
	for i := range key.regions {
		kr := &key.regions[i]
		if l.regions[i].live && !kr.acked && !kr.outlasted && !l.stuck(i, key.id) && kr.shrinks {
			return true
		}
	}
	return false
}

// shrinkWait is how long a growth waits for all that others give up: the longest round trip and a
// store that answers slowly.
const shrinkWait = 500 * time.Millisecond
