package budget

// passTime detects regions that have fallen silent and leases that have ended.
func (l *Leader) passTime(now Instant) []LeaderEffect {
	var out []LeaderEffect
	for i := range l.regions {
		r := &l.regions[i]
		live := r.open && r.acked && now < r.ackedSentAt.Add(l.cfg.leaseAtLeader())
		if live != r.live {
			l.setLive(i, live)
		}
		if r.leaseEnd != 0 && now >= r.leaseEnd {
			r.leaseEnd, r.leaseOver = 0, r.leaseEnd
			out = append(out, l.closeSession(i, ErrSessionClosed)...)
			l.changes.due = true
			l.changes.ended = append(l.changes.ended, i)
		}
		if r.open && !r.live && r.leaseEnd == 0 && now.Sub(r.markedAt) >= l.cfg.leaseAtLeader() {
			out = append(out, l.closeSession(i, ErrSessionClosed)...) // the session never came to life
		}
	}
	return out
}

// regionChanges collects what happened in one step and concerns every key. It is empty between
// steps. Many regions that fall silent together so cost one walk over the keys.
type changes struct {
	due    bool
	silent bool  // a region has fallen silent
	reach  bool  // a region reaches another part of its store than before
	ended  []int // the regions whose leases have ended
}

// setLive records that a region has come to life or fallen silent.
func (l *Leader) setLive(i int, live bool) {
	l.regions[i].live = live
	l.changes.due = true
	l.changes.silent = l.changes.silent || !live
}

// applyRegionChanges updates every key after regions have changed, because the reserved shares have
// changed. A region whose lease has ended enforces no more than the floor of what it was sent.
func (l *Leader) applyRegionChanges() {
	t := l.changes
	if !t.due {
		return
	}
	l.changes = changes{}
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
	key.unweighed, key.tailed = false, l.tailOf(key) > 0
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

// overdrawn reports whether E of the protocol sums above the limit: the shares last sent, and for a
// silent or fenced region at least its floor. What regions may have in use can sum above the limit although
// the truth cannot: each store that has lost its memory reports the most it may have, and the floor of a
// silent region is reserved beside use that had borrowed it. While no live region was sent anything of the
// burst, a lease adds nothing to that, because only live regions get one.
func (l *Leader) overdrawn(key *leaderKey) bool {
	fenced := l.fencedFloor(key)
	rate, burst, sent := int64(fenced.Rate), int64(fenced.Burst), int64(0)
	for i := range key.regions {
		e := l.reserved(i, key)
		rate += int64(e.Rate)
		burst += int64(e.Burst)
		if l.regions[i].live {
			sent += int64(key.regions[i].sent.Burst)
		}
	}
	return rate > Unit || burst > Unit && sent > 0
}

func (l *Leader) reserved(i int, key *leaderKey) Share {
	e := key.regions[i].sent.Max(key.shares[i].Min(l.cfg.Regions[i].Floor))
	return l.mayUse(i, key, e)
}

// graceOver reports whether leases may be renewed. A new leader waits until every region has
// acknowledged, at most half a lease, so that no region's share dips.
func (l *Leader) graceOver(now Instant) bool {
	if now.Sub(l.start) >= l.cfg.Lease/2 {
		return true
	}
	for i := range l.regions {
		if !l.regions[i].live && !l.cfg.Regions[i].Gone() {
			return false
		}
	}
	return true
}

// absent reports whether no daemon of the region enforces anything and nothing is reserved for it.
// Such a region need not acknowledge anything.
func (l *Leader) absent(i int) bool {
	r := &l.regions[i]
	return l.cfg.Regions[i].Gone() && !r.open && r.leaseEnd == 0
}
