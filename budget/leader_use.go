package budget

import "time"

// MaxTail bounds KeyLimit.Tail: fixed windows of a year. A leader waits this long if no region has
// reported a key's limit and it does not know the longest tail of the key's rule.
const MaxTail = 2 * 366 * 24 * time.Hour

// RulesState says which limits are in force: a version of the rules, and how many of its overrides have
// ended by the clock of the daemon that says it. The end of an override changes limits as another version
// does. The zero value is that of a daemon that has no rules.
type RulesState struct {
	Version uint64
	Ended   uint32
}

// before reports whether s is an earlier state than o.
func (s RulesState) before(o RulesState) bool {
	return s.Version < o.Version || s.Version == o.Version && s.Ended < o.Ended
}

// overridesEnded makes the end of an override a change of the rules, once a region reports it. The
// region ends overrides by its own clock, and a region that has not reported it yet takes no tokens
// with the directive at which it finds that an override has ended.
func (l *Leader) overridesEnded(rules RulesState) {
	l.rulesTold(rules)
	if rules.Version == l.rules.Version && l.rules.before(rules) {
		l.newRules(rules)
	}
}

// rulesTold records that a region uses these rules, or may use them.
func (l *Leader) rulesTold(rules RulesState) {
	if l.newest.before(rules) {
		l.newest = rules
	}
}

// newRules discards the tokens in the pools. They are of limits that may have been larger, and the
// buckets they would fill may be full by the new limits.
func (l *Leader) newRules(rules RulesState) {
	for _, key := range l.keys {
		if !key.since.before(rules) {
			continue
		}
		key.since, key.pool = rules, 0
		for i := range key.regions {
			key.regions[i].grant = 0
		}
	}
	if l.committing != nil {
		for i := range l.committing.grows {
			l.committing.grows[i].grant = 0
		}
	}
	l.rules = rules
}

// limitNow returns the key's limit by the rules in force, or zero if no region has reported it.
func (key *leaderKey) limitNow() KeyLimit {
	if key.rules.before(key.since) {
		return KeyLimit{}
	}
	return key.limit
}

// learn records a limit that a region reports under a version of the rules. While the regions'
// rules differ, the latest version counts, whichever region reports last. Of the tails the longest
// counts. If the limit was lowered, the pool is cut to what it could hold now, because the rest
// would be handed out again with every move.
func (l *Leader) learn(key *leaderKey, limit KeyLimit, rules RulesState) {
	if limit.Capacity <= 0 || rules.before(key.rules) {
		return
	}
	key.rules = rules
	key.tail = max(key.tail, limit.Tail)
	if limit == key.limit {
		return
	}
	key.limit = limit
	l.clampPool(key, key.shares)
}

// tailOf returns how long, by the leader's clock, use under a right that has ended still counts
// somewhere. Until a region has reported the limit by the newest rules, another region may use it
// with the longest tail that the key's rule has.
func (l *Leader) tailOf(key *leaderKey) time.Duration {
	tail := key.tail
	if key.limit.Capacity == 0 || key.rules.before(l.newest) {
		longest := MaxTail
		if l.ruleTail != nil {
			longest = min(l.ruleTail(key.id.Rule), MaxTail)
		}
		tail = max(tail, longest)
	}
	if tail == 0 {
		return 0 // Lengthen would round 0 up, and none of this applies to a bucket
	}
	return l.cfg.Lengthen(tail)
}

// delay queues a key to be planned again later.
func (l *Leader) delay(key *leaderKey) {
	if !key.delayed {
		key.delayed = true
		l.delayed = append(l.delayed, key)
	}
}

// planDelayed plans the keys that wait for a tail once more. Those that must still wait come back.
func (l *Leader) planDelayed() {
	for _, key := range l.delayed {
		key.delayed = false
		if key.at >= 0 {
			l.touch(key)
		}
	}
	clear(l.delayed)
	l.delayed = l.delayed[:0]
}

// acknowledge records a report of exactly what was sent. If use outlasts the share, only that use
// is acknowledged. A store that has lost its memory reports that everything may be in use; that
// counts for no more than the region had.
func (l *Leader) acknowledge(rep KeyReport, i int, key *leaderKey) {
	kr := &key.regions[i]
	reported, before := kr.useReported, kr.inUse
	may := l.mayUse(i, key, key.shares[i]).Burst
	used := min(rep.InUse, may)
	kr.lost = rep.InUse > may
	kr.outlasted = used > rep.Share.Burst
	kr.acked, kr.useReported, kr.inUse = !kr.outlasted, true, 0
	if kr.outlasted {
		kr.inUse = used
	}
	kr.recordLabel(rep, key.limit)
	// Most reports change nothing of what is reserved, and to weigh a key reads all its regions.
	if !reported || kr.inUse != before || key.unweighed || key.tailed != (l.tailOf(key) > 0) {
		l.weigh(key)
	}
}

// recordLabel records the window that a report tells. Windows of another length have other numbers. A
// daemon of an earlier version does not say of which windows the number is.
func (kr *keyRegion) recordLabel(rep KeyReport, limit KeyLimit) {
	tail := rep.Limit.Tail
	switch {
	case rep.Label == 0:
		return
	case tail == 0:
		tail = limit.Tail
	}
	if tail != kr.labelTail {
		kr.label, kr.labelTail = 0, tail
	}
	kr.label = max(kr.label, rep.Label)
}

// mayUse returns what a region may have in use if it has at least the given share. The result
// covers use that was reported to outlast the share. It also covers the region's floor while the
// region is cut off, and afterwards until the region has reported otherwise.
func (l *Leader) mayUse(i int, key *leaderKey, atLeast Share) Share {
	kr := &key.regions[i]
	if !l.regions[i].live || !kr.useReported && l.tailOf(key) > 0 {
		atLeast = atLeast.Max(l.cfg.Regions[i].Floor)
	}
	return atLeast.Max(Share{Burst: kr.inUse})
}

// longSilent reports whether a region was silent for so long that it may have taken its floor back,
// or was never heard in this epoch.
func (l *Leader) longSilent(r *leaderRegion, now Instant) bool {
	return r.lastReport == 0 || now.Sub(r.lastReport) >= 2*l.cfg.Lease
}

// forgetReportedUse forgets what a region reported of its use.
func (l *Leader) forgetReportedUse(i int) {
	for _, key := range l.order {
		key.regions[i].useReported, key.unweighed = false, true
	}
}

// firstWindow returns the first window in which a share that grows now may count at once. The other
// regions may have used what they gave up in any window up to the one of their acknowledgement. All
// regions must have reported a window in this epoch, since the pool may have been filled in an
// earlier epoch. 0: unknown. A window of another length is none of the present ones, because a region
// counts in those no more than what was in use when they began; so it comes before the first.
func (l *Leader) firstWindow(key *leaderKey) int64 {
	var last int64
	for i := range key.regions {
		kr := &key.regions[i]
		reported := kr.label
		switch {
		case reported == 0 && l.cfg.Regions[i].Takes():
			return 0
		case reported != 0 && key.limit.Capacity > 0 && kr.labelTail != key.limit.Tail:
			reported = 1
		}
		last = max(last, reported)
	}
	return last
}
