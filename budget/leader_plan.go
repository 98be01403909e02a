package budget

import (
	"slices"
	"time"
)

// plan examines every key whose facts have changed. It queues the shrinks at once and commits the
// rest: lowered liabilities, growths that the pool allows, and new keys. While a commit is in
// flight nothing more is planned, so every plan starts from the ledger as it is.
func (l *Leader) plan(now Instant) []LeaderEffect {
	l.sweep(now)
	if l.committing != nil {
		return nil
	}
	l.urgent = false
	c := &commit{plan: Plan{Epoch: l.epoch}, began: now}
	l.planRedisEpochs(c)
	l.admitRefused(now)
	l.planCreates(c)
	l.planDirty(c, now)
	if len(c.plan.Changes) == 0 && len(c.plan.InitialRedisEpochs) == 0 {
		return nil
	}
	l.stats.Plans++
	l.committing = c
	return []LeaderEffect{Commit{c.plan}}
}

func (l *Leader) planRedisEpochs(c *commit) {
	for i := range l.regions {
		if h := l.regions[i].hello; l.firstContents(i) {
			c.plan.InitialRedisEpochs = append(c.plan.InitialRedisEpochs,
				InitialRedisEpoch{Region: i, RedisEpoch: h.RedisEpoch})
		}
	}
}

// planCreates makes keys hot. Every region, even a silent one, gets a liability of its floor, which
// is what it enforces already.
func (l *Leader) planCreates(c *commit) {
	n := min(len(l.creates), maxPlanCreates)
	for _, asked := range l.creates[:n] {
		shares := make([]Share, len(l.regions))
		for i, r := range l.cfg.Regions {
			shares[i] = r.Floor
		}
		c.plan.Changes = append(c.plan.Changes, Entry{Key: asked.report.Key, Shares: shares})
		c.creates = append(c.creates, asked)
	}
	l.creates = l.creates[n:]
}

// planDirty plans the keys whose facts have changed. Like the renewal of leases, it waits for the
// regions that a new leader has not heard yet. Otherwise the plan would make room for their floors
// in every key, and a moment later that would mostly prove needless.
func (l *Leader) planDirty(c *commit, now Instant) {
	if !l.graceOver(now) {
		return
	}
	n := 0
	for n < min(len(l.dirty), maxPlanLooks) && len(c.plan.Changes) < maxPlanKeys {
		key := l.dirty[n]
		n++
		if key.at < 0 {
			continue // the key is gone
		}
		key.dirty = false
		l.planKey(c, key, now)
	}
	l.dirty = slices.Delete(l.dirty, 0, n)
}

// planKey plans one key.
func (l *Leader) planKey(c *commit, key *leaderKey, now Instant) {
	l.stats.Looks++
	key.settled = false
	l.endFencedUse(key, now)
	lowered := l.lowered(key, now)
	if l.finishCooling(c, key, lowered) {
		return
	}
	target, move := l.target(key, lowered, now)
	raised := move && l.moveTo(c, key, lowered, target, now)
	changed := raised || !slices.Equal(lowered, key.shares)
	key.settled = key.settled && !move && !changed
	if changed {
		c.plan.Changes = append(c.plan.Changes, Entry{Key: key.id, Shares: lowered})
		l.clampPool(key, lowered)
	}
}

// lowered returns the liabilities that the facts allow, by region. A region that is live, or whose
// session is being opened, is liable for what it has acknowledged. A region is liable for its floor
// once its lease has ended and its use since then no longer counts, if it has no session in which
// another lease could begin.
func (l *Leader) lowered(key *leaderKey, now Instant) []Share {
	out := make([]Share, len(key.shares))
	for i, li := range key.shares {
		r, kr := &l.regions[i], &key.regions[i]
		switch {
		case (r.live || r.opening) && (kr.acked || kr.outlasted):
			li = li.Min(kr.confirmed())
		case !r.open && r.leaseEnd == 0 && (kr.inUse > 0 || !li.Within(l.cfg.Regions[i].Floor)):
			if now < r.leaseOver.Add(l.tailOf(key)) {
				l.delay(key)
				break
			}
			li = li.Min(l.cfg.Regions[i].Floor)
			kr.inUse, kr.useReported = 0, false // the region may have used its floor since
			l.weigh(key)
		}
		out[i] = li
	}
	return out
}

// confirmed returns what a region may be liable for at most after it has confirmed the share last
// sent. A share counts as sent while its growth is committed but not sent yet.
func (kr *keyRegion) confirmed() Share {
	return kr.sent.Max(kr.current()).Max(Share{Burst: kr.inUse})
}

// target returns what every region should hold, and whether it is worth moving there. For a silent
// region, and for one that cannot be told anything about the key, the target is what must be
// reserved for it.
func (l *Leader) target(key *leaderKey, lowered []Share, now Instant) ([]Share, bool) {
	in := l.allocationOf(key, lowered)
	if key.cooling != hotKeyState {
		return l.floorsWithin(in), true
	}
	if in.Capacity == 0 {
		// No region has reported the limit yet, so only what cannot wait is moved.
		return allocate(in), in.short() || in.drains()
	}
	if l.divide == nil && l.cfg.Homed(key.limit) {
		home := l.chooseHome(key, in, now)
		out := in.homed(home)
		return out, in.short() || in.moves(out)
	}
	if l.divide == nil && key.limit.LendsUnused() {
		return in.lendUnused()
	}
	key.settled = l.divide == nil && l.remember(key, in)
	return l.divided(key, in, now)
}

// allocationOf collects what allocate needs to know about a key. The result is valid until the next
// call.
func (l *Leader) allocationOf(key *leaderKey, lowered []Share) allocation {
	if l.claims == nil {
		l.claims = make([]claim, len(l.regions))
	}
	in := allocation{
		Capacity: key.limit.Capacity, Rate: key.limit.Rate, Counts: key.limit.Tail > 0,
		Avail:   Share{Rate: Unit, Burst: Unit}.Sub(l.fencedFloor(key)),
		Regions: l.claims,
	}
	for i := range key.regions {
		r, kr := &l.regions[i], &key.regions[i]
		floor := l.cfg.Regions[i].Floor
		if !r.live {
			reserve := lowered[i].Max(floor)
			in.Avail = in.Avail.Sub(reserve)
			in.Regions[i] = claim{Silent: true, Now: reserve, Floor: floor}
			continue
		}
		if l.stuck(i, key.id) {
			// While the region cannot be told anything, it may hold whatever it holds now.
			reserve := l.mayUse(i, key, lowered[i])
			in.Avail = in.Avail.Sub(reserve)
			in.Regions[i] = claim{Silent: true, Now: reserve, Floor: floor}
			continue
		}
		now := kr.current()
		if kr.outlasted && !kr.pending && !kr.lost && key.limit.LendsUnused() && l.cfg.Regions[i].Takes() {
			now = kr.confirmed() // what it has in use is a part of its share again if it asks
		}
		if over := kr.inUse - now.Burst; over > 0 {
			in.Avail.Burst -= over // no other region can have that yet
		}
		if !l.cfg.Regions[i].Takes() {
			in.Regions[i] = claim{Draining: true, Now: now, Floor: floor}
			continue
		}
		if kr.lost && key.limit.LendsUnused() {
			// It could use no share that it is given, and would count all of it as in use.
			in.Regions[i] = claim{Now: now, Floor: floor, Keep: now}
			continue
		}
		keep := l.cfg.ConnectedFloor(floor, key.limit)
		if key.limit.Capacity == 0 {
			keep = floor // no region has reported the limit yet: lend nothing of the floor
		}
		in.Regions[i] = claim{
			Now: now, Floor: floor, Keep: keep,
			Tokens: kr.tokens, Demand: kr.demand.at(r.lastReport, key.limit, r.pace),
			Used: kr.used, Recent: kr.demand.offered > 0 && r.lastReport.Sub(kr.demand.used) < recentUse+2*r.pace,
		}
	}
	if in.Counts {
		in.keepNoBurst()
	}
	return in
}

// keepNoBurst lets regions keep nothing of a burst that has not even that much left, because other
// use may count against it.
func (a *allocation) keepNoBurst() {
	left := int64(a.Avail.Burst)
	for i := range a.Regions {
		left -= int64(a.Regions[i].Keep.Burst)
	}
	if left >= 0 {
		return
	}
	for i := range a.Regions {
		a.Regions[i].Keep.Burst = 0
	}
}

// current returns the share last sent, or the one about to be sent.
func (kr *keyRegion) current() Share {
	if kr.pending {
		return kr.next
	}
	return kr.sent
}

// floorsWithin returns every live region to the floor that it was told.
func (l *Leader) floorsWithin(in allocation) []Share {
	out := make([]Share, len(in.Regions))
	for i, c := range in.Regions {
		out[i] = l.cfg.Regions[i].Told
		if c.Silent {
			out[i] = c.Now
		}
	}
	return out
}

// worthMoving applies the dead band: a move must matter, unless a region rejects requests that a
// free share could serve, or is about to.
func (l *Leader) worthMoving(key *leaderKey, in allocation, target []Share, now Instant) bool {
	key.credit = min(key.credit+mulDiv(maxMovePerSecond, int64(min(now.Sub(key.moved), time.Second)), int64(time.Second)), maxMovePerSecond)
	key.moved = now
	significant, wanted, slow := false, false, false
	var moved, lent int64
	for i, c := range in.Regions {
		if c.Silent {
			continue
		}
		if c.Draining && c.Now != (Share{}) {
			return true
		}
		if !c.Draining && !c.Keep.Within(c.Now) {
			return true // every region must have a request at hand
		}
		diff := int64(target[i].Rate - c.Now.Rate)
		lent += max(-diff, 0)
		if diff > 0 {
			moved += diff
			slow = slow || earnsSlowly(key.limit, c.Floor.Rate)
			wanted = wanted || (c.Demand.Rejecting || c.Tokens < in.drained(c)) && diff >= MinMove
		}
		if abs(diff) > max(deadBand, int64(c.Now.Rate)/10) {
			significant = true
		}
		if in.Capacity > 0 && c.Demand.Rejecting && target[i].Burst-c.Now.Burst >= MinMove {
			wanted = true
		}
	}
	if wanted {
		return true
	}
	if slow {
		moved = min(moved, lent) // what comes out of the pool is taken from nobody
	}
	if significant && moved > key.credit && key.credit < maxMovePerSecond {
		key.settled = false // it moves later
		return false
	}
	if !significant {
		return false
	}
	key.credit -= moved
	return true
}

const (
	// deadBand is 2 % of the limit.
	deadBand = Unit / 50
	// MinMove is the least that a rejecting region is served: 1 %.
	MinMove = Unit / 100
	// maxMovePerSecond is the most that moves without a rejection to justify it: a quarter of the
	// limit.
	maxMovePerSecond = Unit / 4
)

func abs(x int64) int64 {
	if x < 0 {
		return -x
	}
	return x
}
