package budget

// fenced is what regions that were fenced had, while it may count. All of it is free at once, but what was
// admitted of a counting limit counts for a tail. So in an epoch that begins before the floors are settled, no
// share grows for a tail, and the floors that fenced regions had are reserved for as long. A region may have used
// its floor while it was cut off, although others had borrowed it: they had no lease then, and would get one now.
type fenced struct {
	region int   // the first of them, for which all of it is reserved; -1: there is none
	floor  Share // what the other regions' floors leave
}

// fenced returns what fenced regions may have had, of a configuration.
func (c *Config) fenced() fenced {
	out, left := fenced{region: -1}, Share{Rate: Unit, Burst: Unit}
	for i, r := range c.Regions {
		left = left.Sub(r.Floor)
		if r.Fenced && r.FloorVersion != 0 && out.region < 0 {
			out.region = i
		}
	}
	if out.region >= 0 {
		out.floor = left
	}
	return out
}

// floorOf returns the floor of a region that has to be reserved for it while it is not heard.
func (l *Leader) floorOf(i int, key *leaderKey) Share {
	if i == l.fenced.region && !key.fencedUseOver && l.tailOf(key) > 0 {
		return l.fenced.floor
	}
	return l.cfg.Regions[i].Floor
}

// endFencedUse frees what is reserved for fenced regions of a key once it no longer counts.
func (l *Leader) endFencedUse(key *leaderKey, now Instant) {
	switch {
	case l.fenced.region < 0 || key.fencedUseOver:
	case l.fencedUseCounts(key, now):
	default:
		key.fencedUseOver = true
		l.weigh(key)
	}
}

// weighFenced weighs all keys again, because the tails of limits have changed.
func (l *Leader) weighFenced() {
	if l.fenced.region < 0 {
		return
	}
	for _, key := range l.order {
		l.weigh(key)
	}
}

// fencedUseCounts reports whether a fenced region may have used rights that still count. Its
// liabilities were freed at once, but what it had admitted was not. Until the floors are settled,
// an epoch begins with that wait.
func (l *Leader) fencedUseCounts(key *leaderKey, now Instant) bool {
	if now >= l.start.Add(l.tailOf(key)) || l.cfg.Settled() {
		return false
	}
	l.delay(key)
	return true
}
