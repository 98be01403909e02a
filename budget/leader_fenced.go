package budget

// fencedFloors returns the floors that regions had which were fenced, and whether there are any such regions. What a
// fenced region had is free at once, but what was admitted of a counting limit counts for a tail. So in an epoch that
// begins before the floors are settled, no share grows for a tail, and the floors that fenced regions had are reserved
// for as long. A region may have used its floor while it was cut off, although others had borrowed it: they had no lease
// then, and would get one now. A region that was fenced with a floor of 0 may have had shares.
//
// No other change frees anything at once: liabilities and floors come down once use of them no longer counts.
//
// What counts is that the region has left and has not joined again, not that it is fenced now: it may be added again
// within the tail. By the time that it joins, a tail has passed. Nobody has used what a drained region left, but that is
// nobody's floor only until the others have grown.
func (c *Config) fencedFloors() (left Share, fenced bool) {
	left = Share{Rate: Unit, Burst: Unit}
	for i := range c.Regions {
		r := &c.Regions[i]
		left = left.Sub(r.Floor)
		fenced = fenced || !r.Joined && r.FloorVersion != 0
	}
	if !fenced {
		return Share{}, false
	}
	return left, true
}

// fencedFloor returns what is reserved of a key for regions that were fenced, whichever regions are heard.
func (l *Leader) fencedFloor(key *leaderKey) Share {
	if key.fencedUseOver || l.tailOf(key) == 0 {
		return Share{}
	}
	return l.fenced
}

// endFencedUse frees what is reserved for fenced regions of a key once it no longer counts.
func (l *Leader) endFencedUse(key *leaderKey, now Instant) {
	switch {
	case l.fenced == Share{} || key.fencedUseOver:
	case l.fencedUseCounts(key, now):
	default:
		key.fencedUseOver = true
		l.weigh(key)
	}
}

// weighFenced weighs all keys again, because the tails of limits have changed.
func (l *Leader) weighFenced() {
	if l.fenced == (Share{}) {
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
	if !l.anyFenced || now >= l.start.Add(l.tailOf(key)) || l.cfg.Settled() {
		return false
	}
	l.delay(key)
	return true
}
