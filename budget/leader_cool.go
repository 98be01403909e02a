package budget

import "time"

// sweep starts the cooling of keys that nobody has used for a while. A round begins
// once a second, and looks at a part of many keys with each tick.
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
			return // only all regions together can return to cold
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

// coolAfter is how long a key is unused before it cools down: until every bucket
// is full again, so that nothing is lost by it, within reason, and as long as there is
// room for others: those that are leaving already make some, so that no more are sent
// away than are too many.
func (l *Leader) coolAfter(limit KeyLimit) time.Duration {
	const longest = 10 * time.Minute
	if 2*(l.used()-l.cooling) >= l.most {
		return minCoolAfter
	}
	if limit.Rate <= 0 {
		return longest
	}
	full := time.Duration(min(limit.Capacity/limit.Rate+1, int64(longest/time.Second))) * time.Second
	return max(minCoolAfter, l.cfg.lengthen(full))
}

// stayHot ends a return to cold, unless it is being committed already. A region
// that has been told asks again; see Leader.reheat.
func (l *Leader) stayHot(key *leaderKey) {
	if key.cooling == toFloors || key.cooling == goingCold {
		key.cooling = hotKeyState
		l.cooling--
	}
}

// finishCooling takes a key that is going cold one step further: once every share
// is the floor, acknowledged, each region is told; once all have acknowledged
// that, the entry goes. It reports whether the key needs no other planning.
//
// The floor is the one that the region was told, which it enforces of a cold key, and not
// its bound while that is larger: the bound comes down a tail after the region has learned
// of the smaller floor, and what was used meanwhile under a share above it would be
// covered neither by the entry nor by the bound.
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
