package budget

// moveTo queues shrinks and plans growths towards target. lowered holds the liabilities to commit;
// moveTo raises them for the growths, and lowers them where a growth is withdrawn. It reports whether
// it raised any.
func (l *Leader) moveTo(c *commit, key *leaderKey, lowered, target []Share, now Instant) bool {
	pool := l.poolOf(key, lowered)
	if l.fencedUseCounts(key, now) || l.awaitsShrink(key, now) {
		pool = Share{}
	}
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
		grows := Share{Rate: rates[i], Burst: bursts[i]}
		cur := kr.current()
		next := target[i].Min(cur)
		if grows != (Share{}) {
			next = target[i].Min(kr.confirmed()).Add(grows)
		}
		if next == cur {
			continue
		}
		if grows == (Share{}) {
			l.queueAction(i, key, next)
			key.shrunk = now
			if kr.acked {
				// This may withdraw a growth that was never sent. The liability for that growth makes room
				// for its tokens, which are in the pool again.
				lowered[i] = lowered[i].Min(kr.confirmed())
			}
			continue
		}
		raised = true
		lowered[i] = lowered[i].Max(next)
		c.grows = append(c.grows, growth{
			key: key.id, region: i, from: kr.gen, share: next, grant: key.takeFromPool(bursts[i]),
		})
	}
	return raised
}

// canGrow reports whether a region may grow. It grows only from what it has settled on. That equals its liability, so
// that the growth is exactly what is committed.
func (l *Leader) canGrow(i int, key *leaderKey, lowered Share) bool {
	kr := &key.regions[i]
	return l.regions[i].live && kr.settled(key.limit) && !(kr.lost && key.limit.LendsUnused()) && !kr.pending && kr.confirmed() == lowered
}

// settled reports whether the region has acknowledged its share, or has more of a lent limit in use than that.
func (kr *keyRegion) settled(lim KeyLimit) bool {
	return kr.acked || kr.outlasted && lim.LendsUnused()
}

// poolOf returns the part of the limit that no region may be enforcing or have in use: the only
// source of growth. A silent region's floor is not part of it, even if the region had lent it, nor is what a
// fenced region may have used. The result is never negative.
func (l *Leader) poolOf(key *leaderKey, liability []Share) Share {
	pool := Share{Rate: Unit, Burst: Unit}.Sub(l.fencedFloor(key))
	for i, s := range liability {
		pool = pool.Sub(l.mayUse(i, key, s))
	}
	return pool.Max(Share{})
}

// ration meets every need in full, or in proportion if the pool is too small.
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

// queueAction queues a share for the region's next directive. If it replaces a growth that was not
// yet sent, the tokens of that growth return to the pool: the liability that covered them is lowered
// in the same plan.
func (l *Leader) queueAction(i int, key *leaderKey, share Share) {
	r, kr := &l.regions[i], &key.regions[i]
	if !r.open {
		return
	}
	kr.shrinks = share.Burst < kr.current().Burst
	if !kr.pending {
		kr.pending = true
		l.enqueue(i, key.id)
	} else {
		key.pool += kr.grant
	}
	kr.next, kr.grant = share, 0
}

// clampPool discards released tokens beyond what the unassigned burst could hold. A silent region's
// floor is not unassigned, since the region may be filling it again.
func (l *Leader) clampPool(key *leaderKey, liability []Share) {
	key.pool = min(key.pool, Scale(key.limit.Capacity, l.poolOf(key, liability).Burst))
}

// takeFromPool takes the released tokens that come with a growth. It takes no more than the pool
// has and the added burst can hold, so the liability covers tokens in flight.
func (key *leaderKey) takeFromPool(added int32) int64 {
	grant := min(key.pool, Scale(key.limit.Capacity, added))
	key.pool -= grant
	return grant
}

// grow queues a share whose liability is now committed, with its tokens. If the share can no longer
// be sent, the tokens are lost.
func (l *Leader) grow(g growth) {
	key := l.keys[g.key]
	if key == nil || !l.regions[g.region].live {
		return
	}
	kr := &key.regions[g.region]
	if kr.pending || !kr.settled(key.limit) || kr.gen != g.from {
		return // another share or a new session has overtaken it
	}
	l.queueAction(g.region, key, g.share)
	kr.grant = g.grant
}
