package budget

// passTime notices who has fallen silent and whose lease has ended.
func (l *Leader) passTime(now Instant) []LeaderEffect {
	var out []LeaderEffect
	for i := range l.regions {
		r := &l.regions[i]
		live := r.open && r.acked && now < r.ackedSentAt.Add(l.cfg.leaseAtLeader())
		if live != r.live {
			r.live = live
			l.liveChanged(i)
		}
		if r.leaseEnd != 0 && now >= r.leaseEnd {
			r.leaseEnd = 0
			out = append(out, l.closeSession(i, ErrSessionClosed)...)
			l.leaseOver(i)
		}
		if r.open && !r.live && r.leaseEnd == 0 && now.Sub(r.lastReport) >= l.cfg.leaseAtLeader() {
			out = append(out, l.closeSession(i, ErrSessionClosed)...) // it never came to life
		}
	}
	return out
}

// liveChanged weighs every key anew: what counts as reserved has changed.
func (l *Leader) liveChanged(i int) {
	for k, key := range l.keys {
		l.weigh(key, l.ledger.Shares(k))
		if !l.regions[i].live {
			l.clampPool(key, l.ledger.Shares(k))
			key.stayHot()
		}
	}
	l.touchAll()
}

// stayHot ends a return to cold, unless it is being committed already. A region
// that has been told asks again; see Leader.reheat.
func (key *leaderKey) stayHot() {
	if key.cooling != leaving {
		key.cooling = hotKeyState
	}
}

// leaseOver lowers what was last sent to the floor: the region enforces no more.
func (l *Leader) leaseOver(i int) {
	floor := l.cfg.Regions[i].Floor
	for k, key := range l.keys {
		key.regions[i].sent = key.regions[i].sent.Min(floor)
		l.weigh(key, l.ledger.Shares(k))
	}
	l.touchAll()
}

// weigh keeps count of the keys whose sent shares could sum above the limit.
func (l *Leader) weigh(key *leaderKey, liability []Share) {
	over := l.overdrawn(key, liability)
	if over != key.over {
		key.over = over
		if over {
			l.over++
		} else {
			l.over--
		}
	}
}

// overdrawn sums E of the protocol: what was last sent, with a silent region
// reserved at least its floor.
func (l *Leader) overdrawn(key *leaderKey, liability []Share) bool {
	var rate, burst int64
	for i := range key.regions {
		e := l.reserved(i, key, liability[i])
		rate += int64(e.Rate)
		burst += int64(e.Burst)
	}
	return rate > Unit || burst > Unit
}

func (l *Leader) reserved(i int, key *leaderKey, liability Share) Share {
	floor := l.cfg.Regions[i].Floor
	e := key.regions[i].sent.Max(liability.Min(floor))
	if !l.regions[i].live {
		e = e.Max(floor)
	}
	return e
}

// graceOver reports whether leases may be renewed: a new leader waits until every
// region has acknowledged, at most half a lease, so that nobody's share dips.
func (l *Leader) graceOver(now Instant) bool {
	if now.Sub(l.start) >= l.cfg.Lease/2 {
		return true
	}
	for i := range l.regions {
		if !l.regions[i].live && !l.cfg.Regions[i].gone() {
			return false
		}
	}
	return true
}

// absent: nobody of the region enforces anything, and nothing is reserved for it.
// It need not agree to anything.
func (l *Leader) absent(i int) bool {
	r := &l.regions[i]
	return l.cfg.Regions[i].gone() && !r.open && r.leaseEnd == 0
}
