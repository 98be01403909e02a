package budget

// passTime notices who has fallen silent and whose lease has ended.
func (l *Leader) passTime(now Instant) []LeaderEffect {
	var out []LeaderEffect
	for i := range l.regions {
		r := &l.regions[i]
		live := r.open && r.acked && now < r.ackedSentAt.Add(l.cfg.leaseAtLeader())
		if live != r.live {
			l.turned(i, live)
		}
		if r.leaseEnd != 0 && now >= r.leaseEnd {
			r.leaseEnd, r.leaseOver = 0, r.leaseEnd
			out = append(out, l.closeSession(i, ErrSessionClosed)...)
			l.turn.due = true
			l.turn.ended = append(l.turn.ended, i)
		}
		if r.open && !r.live && r.leaseEnd == 0 && now.Sub(r.markedAt) >= l.cfg.leaseAtLeader() {
			out = append(out, l.closeSession(i, ErrSessionClosed)...) // it never came to life
		}
	}
	return out
}

// turn is what has happened in a step that concerns every key. Between steps it is
// empty: many regions that fall silent together cost one walk over the keys.
type turn struct {
	due    bool
	silent bool  // a region has fallen silent
	reach  bool  // what some region reaches of its store is another part now
	ended  []int // whose leases have ended
}

// turned notes that a region has come to life or fallen silent.
func (l *Leader) turned(i int, live bool) {
	l.regions[i].live = live
	l.turn.due = true
	l.turn.silent = l.turn.silent || !live
}

// rethink weighs every key anew after a turn: what counts as reserved has changed. A
// region whose lease has ended enforces no more than the floor of what it was sent.
func (l *Leader) rethink() {
	t := l.turn
	if !t.due {
		return
	}
	l.turn = turn{}
	for _, key := range l.order {
		for _, i := range t.ended {
			kr := &key.regions[i]
			kr.sent = kr.sent.Min(l.cfg.Regions[i].Floor)
		}
		l.weigh(key)
		if t.silent {
			l.clampPool(key, key.shares)
			l.stayHot(key)
		}
		if t.reach && l.stuckAnywhere(key.id) {
			l.stayHot(key)
		}
		l.touch(key)
	}
}

// weigh keeps count of the keys whose sent shares could sum above the limit.
func (l *Leader) weigh(key *leaderKey) {
	over := l.overdrawn(key)
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
func (l *Leader) overdrawn(key *leaderKey) bool {
	var rate, burst int64
	for i := range key.regions {
		e := l.reserved(i, key)
		rate += int64(e.Rate)
		burst += int64(e.Burst)
	}
	return rate > Unit || burst > Unit
}

func (l *Leader) reserved(i int, key *leaderKey) Share {
	e := key.regions[i].sent.Max(key.shares[i].Min(l.cfg.Regions[i].Floor))
	return l.mayUse(i, key, e)
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
