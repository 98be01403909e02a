package budget

// A report that says nothing new of a key needs no plan: this is what makes a leader's
// work follow the keys that change, not the keys that are hot.

// planned is what the latest plan of a key took a region's demand to be.
type planned struct {
	slow, admitted int32
	// active: the region was using the key; silence of it is news.
	active bool
}

// remember notes what a key is being planned from, and whether anything of it will
// change by itself: what is unknown becomes known, and what is quiet decays. Where there
// is not enough for all, who gets how much depends on every report.
func (l *Leader) remember(key *leaderKey, in allocation) (settled bool) {
	settled = true
	left := int64(in.Avail.Rate)
	for i := range in.Regions {
		kr, c := &key.regions[i], &in.Regions[i]
		if c.Silent || c.Draining {
			kr.planned = planned{}
			continue
		}
		quiet := kr.demand.quiet(l.regions[i].lastReport, quietAfter(key.limit, l.regions[i].pace))
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

// negligible demand, 1/1024 of the limit, need not be followed down to nothing.
const negligible = Unit >> 10

// news reports whether a report tells anything beyond usage: an acknowledgement, tokens
// given up, another limit, the end of rejections.
func (key *leaderKey) news(kr *keyRegion, rep *KeyReport) bool {
	return !kr.acked || rep.Released != kr.released || rep.InUse > 0 || kr.demand.rejecting ||
		rep.Limit.Capacity > 0 && rep.Limit != key.limit
}

// steady reports whether the usage that region i has just told of a key, and what others
// have not, leaves the latest plan of it as good as a new one.
func (l *Leader) steady(i int, key *leaderKey) bool {
	if !key.settled || key.cooling != hotKeyState {
		return false
	}
	kr := &key.regions[i]
	d := &kr.demand
	if d.rejecting || !d.known || apart(d.slow, kr.planned.slow) || apart(d.slowAdmitted, kr.planned.admitted) {
		return false
	}
	if kr.tokens < drained(d.slow, kr.current(), key.limit.Rate) {
		return false // it runs short
	}
	for j := range key.regions {
		other, r := &key.regions[j], &l.regions[j]
		if other.planned.active && other.demand.quiet(r.lastReport, quietAfter(key.limit, r.pace)) {
			return false
		}
	}
	return true
}

// apart: a demand has moved by more than a quarter of what would be worth a move.
func apart(demand int64, planned int32) bool {
	was := int64(planned)
	return abs(demand-was) > max(deadBand, was/10)/4
}
