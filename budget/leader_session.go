package budget

import (
	"fmt"
	"time"
)

// hello accepts a Hello. It is answered once the region's first store contents are on record and
// the leadership is proved; see Leader.welcomeWaiting.
func (l *Leader) hello(h Hello, now Instant) []LeaderEffect {
	if h.Region < 0 || h.Region >= len(l.regions) || h.Nonce == 0 {
		return []LeaderEffect{Refuse{Region: h.Region, Incarnation: h.Incarnation, Nonce: h.Nonce, Err: fmt.Errorf("%w: region or nonce", ErrMalformed)}}
	}
	for _, x := range h.Held {
		if !(Share{}).Within(x.Share) || !x.Share.Within(Share{Rate: Unit, Burst: Unit}) || !x.Limit.valid() {
			return []LeaderEffect{Refuse{Region: h.Region, Incarnation: h.Incarnation, Nonce: h.Nonce, Err: fmt.Errorf("%w: impossible share or limit", ErrMalformed)}}
		}
	}
	r := &l.regions[h.Region]
	r.daemons.recordMessage(h.Standing, now)
	busy := r.open && r.incarnation != h.Incarnation && now.Sub(r.lastReport) < busyAfter && !r.yieldsTo(h.Standing, now)
	if busy || r.daemons.claimed(h.Standing.Daemon, now) {
		return []LeaderEffect{Refuse{Region: h.Region, Incarnation: h.Incarnation, Nonce: h.Nonce, Err: ErrRegionBusy}}
	}
	if r.daemons.unmarked(h.Standing, now) {
		// Another daemon may have the store and spend by it.
		out := l.closeSession(h.Region, ErrSuperseded)
		return append(out, Refuse{Region: h.Region, Incarnation: h.Incarnation, Nonce: h.Nonce, Err: ErrRegionBusy})
	}
	out := l.closeSession(h.Region, ErrSuperseded)
	r.hello, r.helloAt = &h, now
	return out
}

// firstContents reports whether a waiting Hello names the first store contents of its region. These
// go on record before the session opens.
func (l *Leader) firstContents(i int) bool {
	cfg, h := &l.ledger.Config.Regions[i], l.regions[i].hello
	return h != nil && cfg.DeclaredAtBootstrap && cfg.InitialRedisEpoch == "" && h.RedisEpoch != ""
}

// welcomeWaiting answers a Hello once a proof of leadership has succeeded that began after the
// Hello came. A deposed leader's ledger is old. A daemon that has lost its memory and its store
// would believe that leader, and take shares that were lent since.
func (l *Leader) welcomeWaiting(i int, now Instant) []LeaderEffect {
	r := &l.regions[i]
	switch {
	case r.hello == nil || l.firstContents(i):
		return nil
	case l.began < r.helloAt:
		return l.prove(now)
	}
	h := *r.hello
	r.hello = nil
	return []LeaderEffect{l.welcome(h, now)}
}

// prove starts a proof of leadership, unless one is in flight.
func (l *Leader) prove(now Instant) []LeaderEffect {
	if l.verifying {
		return nil
	}
	l.verifying, l.verifyFrom = true, now
	return []LeaderEffect{Verify{}}
}

// closeSession ends a region's session and refuses whatever waits in it.
func (l *Leader) closeSession(i int, why error) []LeaderEffect {
	r := &l.regions[i]
	var out []LeaderEffect
	if r.waiting {
		out = append(out, Refuse{Region: i, Seq: r.seq, Err: why})
	}
	if r.hello != nil {
		out = append(out, Refuse{Region: i, Incarnation: r.hello.Incarnation, Nonce: r.hello.Nonce, Err: why})
	}
	for _, keys := range [...][]KeyID{r.outbox, r.kept} {
		for _, k := range keys {
			if key := l.keys[k]; key != nil {
				key.regions[i].pending = false
				l.touch(key)
			}
		}
	}
	if r.open && r.leaseEnd == 0 {
		l.changes.due = true // liabilities above the floor can come down now
	}
	r.open, r.waiting, r.opening, r.hello, r.outbox, r.unchanged, r.cold, r.acked = false, false, false, nil, nil, nil, nil, false
	r.kept, r.unreached = nil, nil
	if r.live {
		l.setLive(i, false)
	}
	return out
}

// welcome opens the session and returns what differs from what the region holds.
func (l *Leader) welcome(h Hello, now Instant) LeaderEffect {
	r := &l.regions[h.Region]
	if l.longSilent(r, now) {
		l.forgetReportedUse(h.Region)
	}
	l.session++
	if r.incarnation != h.Incarnation {
		// The previous daemon may spend until its lease ends. Only records that outlast that lease
		// can show it that the shares have changed.
		r.coolFrom, r.adoptedAt = r.leaseEnd, 0
	}
	r.open, r.session, r.incarnation = true, l.session, h.Incarnation
	r.seq, r.sentAt, r.lastReport, r.rules, r.renewedAt, r.pace = 0, now, now, h.Rules, 0, 0
	l.overridesEnded(r.rules)
	r.markedAt = now
	r.daemons.opened(h.Standing, now)
	l.setUnreached(h.Region, h.Unreached)
	ok := HelloOK{Region: h.Region, Epoch: l.epoch, Session: r.session, Nonce: h.Nonce}
	gen := l.nextGen()
	held := make([]*Held, len(l.order))
	for n := range h.Held {
		x := &h.Held[n]
		if key := l.keys[x.Key]; key != nil {
			held[key.at] = x
			continue
		}
		if l.stuck(h.Region, x.Key) && x.Share.Within(l.cfg.Regions[h.Region].Floor) {
			continue // it could not apply the action, and has no more than it would be told
		}
		ok.Actions = append(ok.Actions, Action{
			Key: x.Key, Gen: gen, Share: l.cfg.Regions[h.Region].Floor, Cold: true,
		})
	}
	for n, key := range l.order {
		if act, differs := l.settle(h.Region, key, held[n], gen, now); differs {
			if !l.canOmit(h.Region, held[n], act) {
				ok.Actions = append(ok.Actions, act)
			}
		} else {
			r.unchanged = append(r.unchanged, key.id)
		}
	}
	ok.Watermark = gen
	return Welcome{OK: ok, Incarnation: h.Incarnation}
}

// settle decides what a region that says Hello holds of one key: no more than its liability, than
// was last sent, and than it says it holds (has; nil: nothing). If the region must be told, settle
// returns an action with the generation gen, and true.
func (l *Leader) settle(i int, key *leaderKey, has *Held, gen Gen, now Instant) (Action, bool) {
	kr, liability := &key.regions[i], key.shares[i]
	sent := kr.gen // zero: nothing was sent in this epoch
	a := kr.sent.Min(liability)
	if has != nil {
		a = a.Min(has.Share)
		if key.limit.Capacity == 0 {
			l.learn(key, has.Limit, RulesState{}) // the region's latest use may be of any version of the rules
		}
	}
	if l.regions[i].leaseEnd == 0 {
		// Its liability may already be on its way down to the floor.
		a = a.Min(l.cfg.Regions[i].Floor)
	}
	*kr = keyRegion{sent: a, tokens: kr.tokens, label: kr.label, labelTail: kr.labelTail, inUse: kr.inUse, useReported: kr.useReported, homeUntil: kr.homeUntil, demand: demand{since: now}}
	l.stayHot(key)
	l.weigh(key)
	l.touch(key)
	// The store may have a share that was sent after the one the region says it holds, because
	// another daemon applied it or the answer was lost. Only an action with its own generation ends
	// that share for certain.
	knows := has != nil && (sent == Gen{} || sent == has.Gen)
	if knows && has.Share == a && a == liability && l.tailOf(key) == 0 {
		kr.gen = has.Gen
		return Action{}, false
	}
	kr.gen = gen
	return Action{Key: key.id, Gen: kr.gen, Share: a, Limit: key.limitNow(), From: l.firstWindow(key)}, true
}

// report folds one report in. The report waits for its answer until there is something to send.
func (l *Leader) report(rep Report, now Instant) []LeaderEffect {
	if rep.Region < 0 || rep.Region >= len(l.regions) {
		return []LeaderEffect{Refuse{Region: rep.Region, Seq: rep.Seq, Err: ErrMalformed}}
	}
	r := &l.regions[rep.Region]
	if !r.open || rep.Epoch != l.epoch || rep.Session != r.session {
		return []LeaderEffect{Refuse{Region: rep.Region, Seq: rep.Seq, Err: ErrSessionClosed}}
	}
	if rep.Seq <= r.seq {
		return []LeaderEffect{Refuse{Region: rep.Region, Seq: rep.Seq, Err: ErrSuperseded}} // a duplicate
	}
	// After a long silence the region may have used its floor, so it has to open a new session.
	if r.waiting || rep.Seq != r.seq+1 || rep.Ack != r.seq || l.longSilent(r, now) {
		out := l.closeSession(rep.Region, ErrSessionClosed)
		return append(out, Refuse{Region: rep.Region, Seq: rep.Seq, Err: ErrSessionClosed})
	}
	if err := l.checkReport(r, rep); err != nil {
		out := l.closeSession(rep.Region, ErrSessionClosed)
		return append(out, Refuse{Region: rep.Region, Seq: rep.Seq, Err: err})
	}
	previous := r.lastReport
	r.seq, r.lastReport, r.rules, r.pace = rep.Seq, now, rep.Rules, rep.Pace
	l.overridesEnded(r.rules)
	r.daemons.report(rep.Standing, now)
	r.waiting, r.opening, r.waitSince, r.tSend = true, rep.Opening, now, rep.TSend
	if rep.Opening {
		l.keepSession(r, now)
	} else {
		l.acknowledged(rep, now)
	}
	l.setUnreached(rep.Region, rep.Unreached)
	for i := range rep.Keys {
		l.foldKey(rep.Region, l.found[i], rep.Keys[i], previous, now)
	}
	return l.passTime(now) // the region may be live now
}

// acknowledged records that a report acknowledges everything sent before it.
func (l *Leader) acknowledged(rep Report, now Instant) {
	r := &l.regions[rep.Region]
	if !r.daemons.unmarked(rep.Standing, now) {
		r.ackedSentAt, r.acked, r.markedAt = r.sentAt, true, now
	}
	if r.adoptedAt == 0 {
		r.adoptedAt = now
	}
	l.confirm(rep.Region)
}

// keepSession keeps the session of a region that is still applying the answer to its Hello, and
// reserves what the region may have had before. It extends the reserved lease as if that had been
// renewed now, although it was not. A region without a lease is told only its floors, so there is
// nothing to keep.
func (l *Leader) keepSession(r *leaderRegion, now Instant) {
	if r.leaseEnd != 0 {
		r.leaseEnd = max(r.leaseEnd, now.Add(l.cfg.leaseAtLeader()))
	}
}

// confirm takes the session's first report as the acknowledgement of the keys for which the
// leader's answer confirmed the Hello. No other share could be in force: the region opens a session
// only with the answer to its latest Hello, and applies nothing between the two. Without this a
// share that no region uses could never grow again.
func (l *Leader) confirm(i int) {
	for _, k := range l.regions[i].unchanged {
		if key := l.keys[k]; key != nil {
			key.regions[i].acked = true
			l.touch(key)
		}
	}
	l.regions[i].unchanged = nil
}

// checkReport refuses what no correct region sends, before anything is folded in. It leaves the keys of the report in found.
func (l *Leader) checkReport(r *leaderRegion, rep Report) error {
	if rep.Opening && r.acked {
		return fmt.Errorf("%w: the session is open already", ErrMalformed)
	}
	if len(rep.Keys) > maxReportKeys {
		return fmt.Errorf("%w: %d keys in one report, at most %d", ErrMalformed, len(rep.Keys), maxReportKeys)
	}
	if rep.Pace < 0 || rep.Pace > maxPace {
		return fmt.Errorf("%w: a pace of %v, at most %v", ErrMalformed, rep.Pace, time.Duration(maxPace))
	}
	l.find(rep.Keys)
	for i := range rep.Keys {
		kr := &rep.Keys[i]
		if kr.Admitted < 0 || kr.Offered < kr.Admitted || kr.Released < 0 || kr.Tokens < 0 || kr.Idle < 0 || kr.Gap < 0 ||
			!kr.Limit.valid() || kr.InUse < 0 || kr.InUse > Unit || kr.Label < 0 || kr.Refunded < 0 {
			return fmt.Errorf("%w: negative or inconsistent usage", ErrMalformed)
		}
		key := l.found[i]
		if key == nil || kr.Gen == (Gen{}) || kr.Cold {
			continue
		}
		d := &key.regions[rep.Region].demand
		if kr.Admitted < d.admitted || kr.Offered < d.offered || kr.Released < key.regions[rep.Region].released {
			return fmt.Errorf("%w: a cumulative counter went backwards", ErrMalformed)
		}
	}
	return nil
}

// find looks up the keys of a report; nil: a key is cold.
func (l *Leader) find(reports []KeyReport) {
	l.found = l.found[:0]
	for i := range reports {
		l.found = append(l.found, l.keys[reports[i].Key])
	}
}

// foldKey folds in what a region reports of a key; nil: the key is cold.
func (l *Leader) foldKey(i int, key *leaderKey, rep KeyReport, previous, now Instant) {
	switch {
	case rep.Cold:
		l.foldCold(i, key, rep, now)
		return
	case key == nil:
		if rep.Gen == (Gen{}) {
			l.wantHot(i, rep, now)
		} else {
			l.sendCold(i, rep.Key) // the region holds a key that has cooled down
		}
		return
	case rep.Gen == (Gen{}):
		l.reheat(key)
		return
	}
	kr := &key.regions[i]
	news := key.hasNews(kr, &rep)
	l.learn(key, rep.Limit, l.regions[i].rules)
	if rep.Offered > kr.demand.offered {
		key.used = now
		if key.cooling == toFloors {
			l.stayHot(key)
		}
	}
	if !l.regions[i].rules.before(key.since) {
		key.pool += rep.Released - kr.released
	}
	kr.released, kr.tokens = rep.Released, rep.Tokens
	l.urgent = l.urgent || key.limit.LendsUnused() && (rep.Rejecting || !kr.acked)
	kr.demand.fold(rep, key.limit, l.regions[i].pace, previous, now)
	if rep.Gen == kr.gen && rep.Share == kr.sent {
		l.acknowledge(rep, i, key)
		kr.used = usedOf(key.limit, &rep)
	}
	if news || !l.steady(i, key) {
		l.touch(key)
	}
}

// foldCold records the acknowledgement of a return to cold.
func (l *Leader) foldCold(i int, key *leaderKey, rep KeyReport, now Instant) {
	if key != nil && rep.Gen == key.regions[i].gen {
		// The region has forgotten the key. If the key becomes hot there again, its counters start
		// at 0.
		kr := &key.regions[i]
		kr.cold = true
		kr.granted, kr.grant, kr.released = 0, 0, 0
		kr.demand = demand{since: now}
		l.touch(key)
	}
}

// reheat makes a key hot again when a region for which it is cold asks for it. Every region that
// was told "cold" is told its share, with a new generation.
func (l *Leader) reheat(key *leaderKey) {
	if key.cooling == leaving {
		return // the region asks again once the key is removed
	}
	l.stayHot(key)
	for j := range key.regions {
		if kr := &key.regions[j]; kr.cold && !kr.pending {
			l.queueAction(j, key, kr.sent)
		}
	}
}

func (l *Leader) wantHot(i int, rep KeyReport, now Instant) {
	asked := create{region: i, report: rep, rules: l.regions[i].rules}
	switch {
	case !l.cfg.Regions[i].Takes() || l.creating[rep.Key]:
	case !l.hasRoom(rep):
		l.refuse(asked, now)
	default:
		l.create(asked)
	}
}
