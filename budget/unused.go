package budget

import "time"

// A limit that counts earns nothing while it is unused: of 100 a day, what an idle region
// keeps for itself is refused to the region whose client asks. So what a region does not use of such
// a limit moves to the one that refuses requests, at once and whole. It moves back as easily:
// a shrink takes no more than what is unused, and nobody has to wait for a window to pass.

// lendsUnused reports whether what a region does not use of a limit is lent whole: it
// counts, and its rule does not have it divided in another way.
func (l KeyLimit) lendsUnused() bool { return l.Tail > 0 && l.Placement == PlacementAuto }

// recentUse is how long ago a region has used a key at the most to be left a part of what is
// unused.
const recentUse = time.Second

// lendUnused is who is to hold what of a limit that lendsUnused, and whether it is worth
// moving there. Only a refusal moves anything. A region that uses the key keeps what it has
// in use and a part of the rest by its demand, an idle one what everybody keeps at hand.
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

// gains reports whether a share holds a whole request more than another one, and half a
// percent of the limit.
func (a allocation) gains(before, after Share) bool {
	return after.Burst-before.Burst >= minMove/2 &&
		Scale(a.Capacity, after.Burst)/microToken > Scale(a.Capacity, before.Burst)/microToken
}

// unusedBursts divides the burst over the live regions; false if not even what they keep fits.
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

// usedOf is how much of a limit a region has in use by its report, in whole requests where the
// limit is divided in such: a part of one is a right to nothing.
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

// awaitsRoom reports whether a region that is heard has still to say what it gives up of a key:
// what it gives is added to what others give, and goes with that to the region that asks. It is
// not waited for longer than giveUpWithin, for the region may be about to be lost.
func (l *Leader) awaitsRoom(key *leaderKey, now Instant) bool {
	if l.divide != nil || !key.limit.lendsUnused() || now.Sub(key.shrunk) >= giveUpWithin {
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

// giveUpWithin is how long a growth waits for all that others give up: a round trip of the
// longest, and a store that answers slowly.
const giveUpWithin = 500 * time.Millisecond
