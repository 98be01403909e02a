package budget

// A report with no news of a key needs no plan. So the leader's work depends on the keys that
// change, not on the number of hot keys.

// planned is the demand of a region that the latest plan of a key assumed.
type planned struct {
	slow, admitted int32
	// active: the region was using the key, so its silence about the key is news.
	active bool
}

// remember records what a key is planned from. It reports whether the plan stays valid without new
// reports: unknown demand becomes known, and demand that stopped decays. Where there is not enough
// for all, every report affects the division, so such a plan is not settled either.
func (l *Leader) remember(key *leaderKey, in allocation) (settled bool) {
	settled = true
	left := int64(in.Avail.Rate)
	for i := range in.Regions {
		kr, c := &key.regions[i], &in.Regions[i]
		if c.Silent || c.Draining {
			kr.planned = planned{}
			continue
		}
		quiet := kr.demand.quiet(l.regions[i].lastReport, QuietAfter(key.limit, l.regions[i].pace))
		kr.planned = planned{
			slow: int32(c.Demand.Slow), admitted: int32(c.Demand.SlowAdmitted),
			active: !quiet && c.Demand.Slow > negligible,
		}
		if !c.Demand.Known || quiet && c.Demand.Slow > negligible {
			settled = false
		}
		left -= c.Demand.Slow
	}
	return settled && left >= 0
}

// negligible is a demand that need not be followed down to nothing: 1/1024 of the limit.
const negligible = Unit >> 10

// hasNews reports whether a report says anything besides usage: an acknowledgement, released tokens,
// another limit, or the end of rejections.
func (key *leaderKey) hasNews(kr *keyRegion, rep *KeyReport) bool {
	return !kr.acked || rep.Released != kr.released || rep.InUse > 0 || kr.demand.rejecting ||
		rep.Limit.Capacity > 0 && rep.Limit != key.limit
}

// steady reports whether the latest plan of a key is as good as a new one would be, given what
// region i has just reported and what other regions have not.
func (l *Leader) steady(i int, key *leaderKey) bool {
	if !key.settled || key.cooling != hotKeyState {
		return false
	}
	kr := &key.regions[i]
	d := &kr.demand
	if d.rejecting || !d.known || hasMoved(d.slow, kr.planned.slow) || hasMoved(d.slowAdmitted, kr.planned.admitted) {
		return false
	}
	if kr.tokens < drained(d.slow, kr.current(), key.limit.Rate) {
		return false // it is running short
	}
	for j := range key.regions {
		other, r := &key.regions[j], &l.regions[j]
		if other.planned.active && other.demand.quiet(r.lastReport, QuietAfter(key.limit, r.pace)) {
			return false
		}
	}
	return true
}

// hasMoved reports whether a demand has moved by more than a quarter of what would be worth a move.
func hasMoved(demand int64, planned int32) bool {
	was := int64(planned)
	return abs(demand-was) > max(deadBand, was/10)/4
}
