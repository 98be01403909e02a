package budget

import "time"

// plan looks at every key whose facts have changed, queues the shrinks at once and
// commits the rest: lowered liabilities, growths that the pool allows, new keys.
// While a commit is in flight nothing more is planned, so every plan starts from
// the ledger as it is.
func (l *Leader) plan(now Instant) []LeaderEffect {
	l.sweep(now)
	if l.committing != nil {
		return nil
	}
	c := &commit{plan: Plan{Epoch: l.epoch}, began: now}
	l.planRedisEpochs(c)
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

// planCreates makes keys hot: a liability of the floor for every region, silent
// ones included, which is what each enforces already.
func (l *Leader) planCreates(c *commit) {
	n := min(len(l.creates), maxPlanKeys)
	for _, rep := range l.creates[:n] {
		shares := make([]Share, len(l.regions))
		for i, r := range l.cfg.Regions {
			shares[i] = r.Floor
		}
		c.plan.Changes = append(c.plan.Changes, Entry{Key: rep.Key, Shares: shares})
		c.creates = append(c.creates, rep)
	}
	l.creates = l.creates[n:]
}

func (l *Leader) planDirty(c *commit, now Instant) {
	n := 0
	for n < len(l.dirty) && len(c.plan.Changes) < maxPlanKeys {
		k := l.dirty[n]
		n++
		key := l.keys[k]
		if key == nil || !key.dirty {
			continue
		}
		key.dirty = false
		l.planKey(c, k, key, now)
	}
	l.dirty = l.dirty[n:]
}

// planKey plans one key.
func (l *Leader) planKey(c *commit, k KeyID, key *leaderKey, now Instant) {
	liability := l.ledger.Shares(k)
	lowered := l.lowered(key, liability)
	if l.finishCooling(c, k, key, lowered) {
		return
	}
	target, move := l.target(key, lowered, now)
	changed := !equalShares(lowered, liability)
	if move {
		changed = l.moveTo(c, k, key, lowered, target) || changed
	}
	if changed {
		c.plan.Changes = append(c.plan.Changes, Entry{Key: k, Shares: lowered})
		l.clampPool(key, lowered)
	}
}

// lowered are the liabilities that facts already allow: what a live region has
// acknowledged, and the floor of one whose lease has ended and that has no session
// in which another could begin.
func (l *Leader) lowered(key *leaderKey, liability []Share) []Share {
	out := make([]Share, len(liability))
	for i, li := range liability {
		r, kr := &l.regions[i], &key.regions[i]
		switch {
		case r.live && kr.acked:
			// A share whose growth is committed but still waits to be sent
			// counts as sent.
			li = li.Min(kr.sent.Max(kr.current()))
		case !r.open && r.leaseEnd == 0:
			li = li.Min(l.cfg.Regions[i].Floor)
		}
		out[i] = li
	}
	return out
}

// target is what every region should hold, and whether it is worth moving there.
// A silent region's target is what must be reserved for it.
func (l *Leader) target(key *leaderKey, lowered []Share, now Instant) ([]Share, bool) {
	in := l.allocationOf(key, lowered)
	if key.cooling != hotKeyState {
		return l.floorsWithin(in), true
	}
	out := allocate(in)
	if in.Capacity == 0 && !in.short() {
		return nil, false // nobody has told the limit yet
	}
	if in.short() {
		return out, true // a floor must be honoured: no time to lose
	}
	return out, l.worthMoving(key, in, out, now)
}

// allocationOf collects what allocate needs to know about a key.
func (l *Leader) allocationOf(key *leaderKey, lowered []Share) allocation {
	in := allocation{
		Capacity: key.limit.Capacity,
		Avail:    Share{Rate: Unit, Burst: Unit},
		Regions:  make([]claim, len(key.regions)),
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
		keep := ConnectedFloor(floor, len(l.regions), key.limit.Capacity)
		if key.limit.Capacity == 0 {
			keep = floor // nobody has told the limit yet: lend nothing of the floor
		}
		in.Regions[i] = claim{
			Now: kr.current(), Floor: floor, Keep: keep,
			Demand: kr.demand.at(r.lastReport, key.limit),
		}
	}
	return in
}

// current is the share last sent, or about to be.
func (kr *keyRegion) current() Share {
	if kr.pending {
		return kr.next
	}
	return kr.sent
}

// floorsWithin sends every live region back to its floor.
func (l *Leader) floorsWithin(in allocation) []Share {
	out := make([]Share, len(in.Regions))
	for i, c := range in.Regions {
		out[i] = c.Floor
		if c.Silent {
			out[i] = c.Now
		}
	}
	return out
}

// moveTo queues shrinks and plans growths towards target; lowered becomes the
// liabilities to commit. It reports whether it raised any.
func (l *Leader) moveTo(c *commit, k KeyID, key *leaderKey, lowered, target []Share) bool {
	pool := l.poolOf(lowered)
	need := make([]Share, len(target))
	for i := range target {
		if l.canGrow(i, key, lowered[i]) {
			need[i] = target[i].Sub(lowered[i]).Max(Share{})
		}
	}
	rates := ration(pool.Rate, need, func(s Share) int32 { return s.Rate })
	bursts := ration(pool.Burst, need, func(s Share) int32 { return s.Burst })
	raised := false
	for i := range target {
		kr := &key.regions[i]
		if !l.regions[i].live {
			continue
		}
		cur := kr.current()
		next := target[i].Min(cur).Add(Share{Rate: rates[i], Burst: bursts[i]})
		if next == cur {
			continue
		}
		if rates[i] == 0 && bursts[i] == 0 {
			l.queueAction(i, k, key, next)
			continue
		}
		raised = true
		lowered[i] = lowered[i].Max(next)
		c.grows = append(c.grows, growth{
			key: k, region: i, from: kr.gen, share: next, grant: key.takeFromPool(bursts[i]),
		})
	}
	return raised
}

// canGrow: a region grows only from a share it has acknowledged and that is all its
// liability, so that what is added is exactly what is committed.
func (l *Leader) canGrow(i int, key *leaderKey, lowered Share) bool {
	kr := &key.regions[i]
	return l.regions[i].live && kr.acked && !kr.pending && kr.sent == lowered
}

// poolOf is what nobody may be enforcing: the only source of growth. A silent
// region's floor is not in it, even if the region had lent it. Never negative.
func (l *Leader) poolOf(liability []Share) Share {
	pool := Share{Rate: Unit, Burst: Unit}
	for i, s := range liability {
		if !l.regions[i].live {
			s = s.Max(l.cfg.Regions[i].Floor)
		}
		pool = pool.Sub(s)
	}
	return pool.Max(Share{})
}

// ration gives every need in full, or by its size if the pool is too small.
func ration(pool int32, need []Share, part func(Share) int32) []int32 {
	out := make([]int32, len(need))
	weights := make([]int64, len(need))
	var sum int64
	for i, n := range need {
		out[i] = part(n)
		weights[i] = int64(out[i])
		sum += weights[i]
	}
	if sum <= int64(pool) {
		return out
	}
	for i, x := range apportion(int64(pool), weights) {
		out[i] = int32(x)
	}
	return out
}

// queueAction has a share sent with the region's next directive.
func (l *Leader) queueAction(i int, k KeyID, key *leaderKey, share Share) {
	r, kr := &l.regions[i], &key.regions[i]
	if !r.open {
		return
	}
	if !kr.pending {
		kr.pending = true
		kr.grant = 0
		r.outbox = append(r.outbox, k)
	}
	kr.next = share
}

// clampPool voids released tokens beyond what the unassigned burst could hold. A
// silent region's floor is not unassigned: the region may be filling it again.
func (l *Leader) clampPool(key *leaderKey, liability []Share) {
	key.pool = min(key.pool, Scale(key.limit.Capacity, l.poolOf(liability).Burst))
}

// committed applies the plan here too and sends what it allows.
func (l *Leader) committed(now Instant) {
	c := l.committing
	if c == nil {
		return
	}
	l.committing = nil
	if err := l.ledger.Apply(c.plan); err != nil {
		panic("budget: a committed plan does not apply to the leader's ledger: " + err.Error())
	}
	l.cfg = l.ledger.Config
	l.began = max(l.began, c.began)
	l.stats.ShareChanges += uint64(len(c.plan.Changes))
	for _, rep := range c.creates {
		l.created(rep, now)
	}
	for _, e := range c.plan.Changes {
		l.changed(e)
	}
	for _, g := range c.grows {
		l.grow(g)
	}
}

// changed weighs a key with its new liabilities, or forgets it.
func (l *Leader) changed(e Entry) {
	key := l.keys[e.Key]
	if key == nil {
		if e.Shares != nil {
			l.ledger.set(Entry{Key: e.Key}) // its rule went away meanwhile
		}
		return
	}
	if e.Shares == nil {
		if key.over {
			l.over--
		}
		delete(l.keys, e.Key)
		l.stats.Cooled++
		return
	}
	l.weigh(key, e.Shares)
	l.touch(e.Key, key)
}

// takeFromPool takes the released tokens that come with a growth: only what is
// there, and only as much as the added burst can hold, so tokens in flight are
// covered by its liability.
func (key *leaderKey) takeFromPool(added int32) int64 {
	grant := min(key.pool, Scale(key.limit.Capacity, added))
	key.pool -= grant
	return grant
}

// grow sends a share whose liability is now committed, with its tokens. If it can
// no longer be sent, the tokens are lost.
func (l *Leader) grow(g growth) {
	key := l.keys[g.key]
	if key == nil || !l.regions[g.region].live {
		return
	}
	kr := &key.regions[g.region]
	if kr.pending || !kr.acked || kr.gen != g.from {
		return // overtaken by another share, or by a new session
	}
	l.queueAction(g.region, g.key, key, g.share)
	kr.grant = g.grant
}

func (l *Leader) created(rep KeyReport, now Instant) {
	delete(l.creating, rep.Key)
	shares := l.ledger.Shares(rep.Key)
	if shares == nil || l.keys[rep.Key] != nil {
		return
	}
	key := l.newKey(shares, now)
	key.limit = rep.Limit
	l.keys[rep.Key] = key
	l.stats.Created++
	for i := range l.regions {
		l.queueAction(i, rep.Key, key, shares[i])
	}
}

func equalShares(a, b []Share) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// worthMoving is the dead band: a move must matter, unless a region rejects
// requests that a free share could serve.
func (l *Leader) worthMoving(key *leaderKey, in allocation, target []Share, now Instant) bool {
	key.credit = min(key.credit+mulDiv(maxMovePerSecond, int64(min(now.Sub(key.moved), time.Second)), int64(time.Second)), maxMovePerSecond)
	key.moved = now
	significant, wanted := false, false
	var moved int64
	for i, c := range in.Regions {
		if c.Silent {
			continue
		}
		diff := int64(target[i].Rate - c.Now.Rate)
		if diff > 0 {
			moved += diff
			wanted = wanted || c.Demand.Rejecting && diff >= minMove
		}
		if abs(diff) > max(deadBand, int64(c.Now.Rate)/10) {
			significant = true
		}
		if in.Capacity > 0 && c.Demand.Rejecting && target[i].Burst-c.Now.Burst >= minMove {
			wanted = true
		}
	}
	if wanted {
		return true
	}
	if !significant || moved > key.credit {
		return false
	}
	key.credit -= moved
	return true
}

const (
	// deadBand is 2 % of the limit.
	deadBand = Unit / 50
	// minMove is what a rejecting region is served at the least: 1 %.
	minMove = Unit / 100
	// maxMovePerSecond: without a rejection to justify it, a quarter of the
	// limit.
	maxMovePerSecond = Unit / 4
)

func abs(x int64) int64 {
	if x < 0 {
		return -x
	}
	return x
}
