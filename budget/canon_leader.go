package budget

import (
	"maps"
	"slices"
	"time"
)

// Clone returns an independent copy, for model checking. Messages, plans and configurations are
// shared: they are replaced, never changed.
func (l *Leader) Clone() *Leader {
	c := *l
	c.found = nil
	c.ledger = l.ledger.fork()
	c.regions = slices.Clone(l.regions)
	for i := range c.regions {
		r := &c.regions[i]
		r.outbox, r.unchanged, r.cold = slices.Clone(r.outbox), slices.Clone(r.unchanged), slices.Clone(r.cold)
		r.kept = slices.Clone(r.kept)
		r.daemons.known = slices.Clone(r.daemons.known)
	}
	c.keys, c.order = make(map[KeyID]*leaderKey, len(l.keys)), make([]*leaderKey, len(l.order))
	for i, key := range l.order {
		x := *key
		x.regions = slices.Clone(key.regions)
		c.keys[x.id], c.order[i] = &x, &x
	}
	c.dirty, c.delayed = c.counterparts(l.dirty), c.counterparts(l.delayed)
	c.claims = nil
	c.creates = slices.Clone(l.creates)
	c.creating, c.refused, c.held = maps.Clone(l.creating), maps.Clone(l.refused), maps.Clone(l.held)
	return &c
}

// counterparts returns the clone's keys that correspond to the given ones. A key that was removed has
// none.
func (l *Leader) counterparts(keys []*leaderKey) []*leaderKey {
	own := make([]*leaderKey, 0, len(keys))
	for _, key := range keys {
		if key.at >= 0 {
			own = append(own, l.order[key.at])
		}
	}
	return own
}

// AppendState writes everything that influences what the leader does from now on. It leaves out:
// the counters of generations and sessions, which are beyond all that are in use; what follows from
// the rest (fenced, anyFenced, over, held, cooling, a key's shares); what is empty between steps (turn) or only reused
// memory (claims); what is only displayed (stats, tokens); and, without c.Demand, what only the
// division of a key uses.
func (l *Leader) AppendState(c *Canon, now Instant) {
	c.Config(&l.cfg)
	l.ledger.AppendState(c)
	c.Epoch(l.epoch)
	c.Age(now, l.start, max(l.cfg.Lease/2, l.longestTail()))
	c.Bools(l.committing != nil, l.verifying, l.urgent)
	c.Left(now, l.nextSweep)
	c.rules(l.rules)
	c.rules(l.newest) // ruleTail follows from it
	c.Int(int64(l.swept))
	l.time(c, l.began)
	if l.verifying {
		l.time(c, l.verifyFrom)
	}
	for i := range l.regions {
		l.appendRegion(c, i, now)
	}
	c.Int(int64(len(l.keys)))
	for _, key := range l.order {
		c.key(key.id)
		l.appendKey(c, key, now)
	}
	for _, key := range l.dirty {
		if key.at >= 0 {
			c.Int(int64(key.at))
		}
	}
	c.Int(-1)
	for _, key := range l.delayed {
		if key.at >= 0 {
			c.Int(int64(key.at))
		}
	}
	c.Int(-1)
	c.Int(int64(len(l.creates)))
	for i := range l.creates {
		c.created(&l.creates[i])
	}
	c.Int(int64(len(l.refused)))
	for _, k := range sortedKeys(l.refused) {
		c.key(k)
		c.Age(now, l.refused[k].at, refusedFor)
	}
	c.Int(int64(len(l.creating)))
	for _, k := range sortedKeys(l.creating) {
		c.key(k)
	}
	if l.committing != nil {
		l.committing.appendState(c, l)
	}
}

// time writes an instant of the leader's clock that is only compared with others.
func (l *Leader) time(c *Canon, t Instant) {
	c.name(space(NameOrder, leaderTimes, l.epoch, 0), uint64(t))
}

// longestTail returns the time after which no key depends on when a right ended.
func (l *Leader) longestTail() time.Duration {
	var longest time.Duration
	for _, key := range l.order {
		longest = max(longest, l.tailOf(key))
	}
	return longest
}

func (l *Leader) appendRegion(c *Canon, i int, now Instant) {
	r := &l.regions[i]
	c.Bools(r.open, r.acked, r.live, r.waiting, r.opening, r.hello != nil, r.renewedAt != 0, r.leaseEnd != 0)
	c.Incarnation(i, r.incarnation)
	c.rules(r.rules)
	c.Left(now, r.leaseEnd)
	c.Left(now, r.coolFrom)
	c.Age(now, r.leaseOver, l.longestTail())
	c.Bools(r.lastReport == 0, r.adoptedAt == 0)
	c.Age(now, r.adoptedAt, l.cfg.adoptAfter(l.longestTail()))
	c.Age(now, r.lastReport, max(2*l.cfg.leaseAtLeader(), busyAfter))
	if r.open {
		c.session(l.epoch, r.session, r.seq)
		c.Age(now, r.sentAt, l.cfg.leaseAtLeader())
		if r.acked {
			c.Age(now, r.ackedSentAt, l.cfg.leaseAtLeader())
		}
		c.Age(now, r.renewedAt, renewEvery)
	}
	if c.Demand {
		c.Int(int64(r.pace))
	}
	if r.waiting {
		c.Age(now, r.waitSince, AnswerHold)
		l.time(c, r.waitSince)
		c.regionTime(i, r.tSend)
	}
	if r.hello != nil {
		c.Hello(r.hello)
		l.time(c, r.helloAt)
	}
	c.Age(now, r.markedAt, l.cfg.leaseAtLeader())
	r.daemons.appendState(c, now)
	c.slots(r.unreached)
	for _, keys := range [...][]KeyID{r.outbox, r.kept, r.unchanged} {
		c.Int(int64(len(keys)))
		for _, k := range keys {
			c.key(k)
		}
	}
	c.actions(i, r.cold)
}

func (d *regionDaemons) appendState(c *Canon, now Instant) {
	c.Int(int64(d.session))
	c.Bools(d.storeless == 0, d.alone)
	c.Age(now, d.storeless, yieldAfter)
	c.Int(int64(d.claimant))
	c.Age(now, d.claimedAt, busyAfter)
	c.daemons(d.knows)
	c.Int(int64(len(d.known)))
	for _, k := range d.known {
		c.Int(int64(k.id))
		c.Age(now, k.heard, ForgetDaemonAfter)
	}
}

func (l *Leader) appendKey(c *Canon, key *leaderKey, now Instant) {
	k := key.id
	c.limit(key.limit)
	c.Int(key.pool)
	// tailed and unweighed say only whether over has to be found again, from what is here.
	c.Bools(key.dirty, key.over, key.fencedUseOver)
	c.Int(int64(key.tail))
	c.rules(key.rules)
	c.rules(key.since)
	c.Int(int64(key.cooling))
	c.Age(now, key.used, l.coolAfter(key.limit))
	for i := range key.regions {
		kr := &key.regions[i]
		c.share(kr.sent)
		c.Gen(kr.gen)
		c.Bools(kr.acked, kr.pending, kr.cold, kr.outlasted, kr.useReported, kr.lost)
		c.Int(int64(kr.inUse))
		c.Int(kr.label)
		c.Int(int64(kr.labelTail))
		if kr.pending {
			c.share(kr.next)
			c.Int(kr.grant)
		}
		c.granted(i, k, kr.granted)
		c.released(i, k, kr.released)
		c.usage(i, k, kr.demand.admitted, kr.demand.offered)
		if c.Demand {
			kr.demand.appendState(c, now)
			c.Int(int64(kr.planned.slow))
			c.Int(int64(kr.planned.admitted))
			c.Bools(kr.planned.active)
			c.Ago(now, kr.homeUntil)
			c.Int(kr.used)
			c.Bools(kr.shrinks)
		}
	}
	if c.Demand {
		c.Bools(key.settled)
		c.Int(key.credit)
		c.Ago(now, key.moved)
		c.Int(int64(key.home))
		c.Age(now, key.shrunk, shrinkWait)
		c.Age(now, key.homeSince, max(BusyDwell, TailsDwell*key.limit.Tail))
		c.Bools(key.short != 0)
		c.Age(now, key.short, key.shortFor())
	}
}

func (d *demand) appendState(c *Canon, now Instant) {
	c.Bools(d.known, d.rejecting, d.since != 0, d.window != 0, d.last != 0)
	for _, v := range [...]int64{
		d.admitted, d.offered, d.windowAdmitted, d.windowOffered, d.meanAdmitted, d.meanOffered, int64(d.over), int64(d.gap), d.slow, d.slowAdmitted,
	} {
		c.Int(v)
	}
	for _, t := range [...]Instant{d.since, d.window, d.last, d.used} {
		c.Ago(now, t)
	}
}

// created writes a request for a key to become hot. Nothing reads what it says of the use.
func (c *Canon) created(asked *create) {
	c.key(asked.report.Key)
	c.limit(asked.report.Limit)
	c.rules(asked.rules)
	if c.Demand {
		c.Int(int64(asked.region))
	}
}

func (m *commit) appendState(c *Canon, l *Leader) {
	c.Plan(&m.plan)
	l.time(c, m.began)
	c.Int(int64(len(m.grows)))
	for _, g := range m.grows {
		c.key(g.key)
		c.Int(int64(g.region))
		c.Gen(g.from)
		c.share(g.share)
		c.Int(g.grant)
	}
	c.Int(int64(len(m.creates)))
	for i := range m.creates {
		c.created(&m.creates[i])
	}
}

// AppendState writes what a change of floors or of timing waits for.
func (s *FloorSteps) AppendState(c *Canon, now Instant) {
	c.Bools(s.done, s.held != 0)
	if s.done {
		return
	}
	c.Ago(now, s.began)
	if s.held != 0 {
		c.Ago(now, s.held)
	}
	c.Int(int64(s.fill))
	c.Int(int64(s.tail))
}
