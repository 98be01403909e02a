package budget

import "time"

// sweep starts the cooling of keys that no region has used for a while. A round begins once a
// second. If there are many keys, each tick examines a part of them.
func (l *Leader) sweep(now Instant) {
	if l.swept == 0 {
		if now < l.nextSweep {
			return
		}
		l.nextSweep = now.Add(sweepEvery)
		l.planDelayed()
	}
	for i := range l.regions {
		if !l.absent(i) && (!l.regions[i].live || now < l.regions[i].coolFrom) {
			l.swept = 0
			return // a key returns to cold only with all regions together
		}
	}
	end := min(l.swept+sweepKeys, len(l.order))
	for _, key := range l.order[min(l.swept, end):end] {
		if key.cooling == hotKeyState && now.Sub(key.used) >= l.coolAfter(key.limit) && !l.stuckAnywhere(key.id) {
			key.cooling = toFloors
			l.cooling++
			l.touch(key)
		}
	}
	l.swept = end
	if end == len(l.order) {
		l.swept = 0
	}
}

// coolAfter returns how long a key must be unused before it cools down. Normally that is the time
// until every bucket is full again, so that cooling loses no tokens; it is at most ten minutes. In
// a crowded table it is shorter. Keys that are already cooling count as free places, so no more
// keys are cooled than the table has too many.
func (l *Leader) coolAfter(limit KeyLimit) time.Duration {
	const longest = 10 * time.Minute
	if 2*(l.used()-l.cooling) >= l.maxHot {
		return minCoolAfter
	}
	if limit.Rate <= 0 {
		return longest
	}
	full := time.Duration(min(limit.Capacity/limit.Rate+1, int64(longest/time.Second))) * time.Second
	return max(minCoolAfter, l.cfg.Lengthen(full))
}

// stayHot cancels a return to cold, unless it is being committed. A region that was already told
// "cold" asks again; see Leader.reheat.
func (l *Leader) stayHot(key *leaderKey) {
	if key.cooling == toFloors || key.cooling == goingCold {
		key.cooling = hotKeyState
		l.cooling--
	}
}

// finishCooling moves a key that is going cold one step on. Once every share is the floor and
// acknowledged, each region is told that the key is cold. Once all have acknowledged that, the
// entry is removed. It reports whether the key needs no other planning.
//
// The floor is the told floor, which the region enforces for a cold key. It is not the region's
// bound while that is larger. The bound comes down a tail after the region has learned of the
// smaller floor. Use of a share above the told floor in that time would be covered neither by the
// entry nor by the bound.
func (l *Leader) finishCooling(c *commit, key *leaderKey, lowered []Share) bool {
	if key.cooling == toFloors && l.allAtFloor(key, lowered) {
		key.cooling = goingCold
		for i := range key.regions {
			key.regions[i].cold = false
			l.queueAction(i, key, l.cfg.Regions[i].Told)
		}
	}
	if key.cooling != goingCold {
		return key.cooling == leaving
	}
	for i := range key.regions {
		if !key.regions[i].cold && !l.absent(i) {
			return true
		}
	}
	key.cooling = leaving
	c.plan.Changes = append(c.plan.Changes, Entry{Key: key.id})
	return true
}

func (l *Leader) allAtFloor(key *leaderKey, lowered []Share) bool {
	for i := range key.regions {
		kr, floor := &key.regions[i], l.cfg.Regions[i].Told
		if l.absent(i) && lowered[i] == floor {
			continue
		}
		if !l.regions[i].live || !kr.acked || kr.pending || kr.sent != floor || lowered[i] != floor {
			return false
		}
	}
	return true
}
