package budget

import "time"

// MaxTail bounds KeyLimit.Tail: fixed windows of a year. A leader waits this long where
// nobody has told it a key's limit, nor the longest tail of its rule.
const MaxTail = 2 * 366 * 24 * time.Hour

// newRules voids the tokens between regions: they are of limits that may have been
// larger, and the buckets that they would fill may be full by the new ones.
func (l *Leader) newRules(version uint64) {
	for _, key := range l.keys {
		if key.since == version {
			continue
		}
		key.since, key.pool = version, 0
		for i := range key.regions {
			key.regions[i].grant = 0
		}
	}
	if l.committing != nil {
		for i := range l.committing.grows {
			l.committing.grows[i].grant = 0
		}
	}
	l.rules = version
}

// limitNow is the key's limit by the rules in force, zero if no region has said it.
func (key *leaderKey) limitNow() KeyLimit {
	if key.rules < key.since {
		return KeyLimit{}
	}
	return key.limit
}

// learn takes a limit as a region reads it under a version of the rules. While the
// regions' rules differ the latest version counts, whoever reports last; a tail
// counts as the longest. The pool holds no more of a limit that was lowered than it
// could hold now: what it holds beyond would be given out again with every move.
func (l *Leader) learn(key *leaderKey, limit KeyLimit, rules uint64) {
	if limit.Capacity <= 0 || rules < key.rules {
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

// tailOf is after how long, by the leader's clock, what was used under a right that
// has ended counts nowhere any more.
func (l *Leader) tailOf(key *leaderKey) time.Duration {
	tail := key.tail
	if key.limit.Capacity == 0 {
		tail = MaxTail
		if l.ruleTail != nil {
			tail = min(l.ruleTail(key.id.Rule), MaxTail)
		}
	}
	if tail == 0 {
		return 0 // which lengthen would round up: to a bucket nothing of this applies
	}
	return l.cfg.lengthen(tail)
}

// delay has a key planned again in a while.
func (l *Leader) delay(key *leaderKey) {
	if !key.delayed {
		key.delayed = true
		l.delayed = append(l.delayed, key)
	}
}

// planDelayed looks again at the keys that wait for a tail; those that still do come
// back.
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

// fencedUseCounts reports whether a region that was fenced may have used rights which
// still count: its liabilities were freed at once, and what it admitted before was not.
// Until the floors are settled a reign begins with that wait.
func (l *Leader) fencedUseCounts(key *leaderKey, now Instant) bool {
	if now >= l.start.Add(l.tailOf(key)) || l.cfg.Settled() {
		return false
	}
	l.delay(key)
	return true
}

// acknowledge takes the report of exactly what was sent. Use that outlasts the share
// acknowledges no more than itself. A store that has lost its memory says that all may
// be in use; it is no more than the region had.
func (l *Leader) acknowledge(rep KeyReport, i int, key *leaderKey) {
	kr := &key.regions[i]
	used := min(rep.InUse, l.mayUse(i, key, key.shares[i]).Burst)
	kr.outlasted = used > rep.Share.Burst
	kr.acked, kr.looked, kr.inUse = !kr.outlasted, true, 0
	if kr.outlasted {
		kr.inUse = used
	}
	kr.label = max(kr.label, rep.Label)
	l.weigh(key)
}

// mayUse is what a region may have in use if it has at least: the use that was found to
// outlast its share, and its floor while it is cut off, and after that until it has told
// otherwise.
func (l *Leader) mayUse(i int, key *leaderKey, least Share) Share {
	kr := &key.regions[i]
	if !l.regions[i].live || !kr.looked && l.tailOf(key) > 0 {
		least = least.Max(l.cfg.Regions[i].Floor)
	}
	return least.Max(Share{Burst: kr.inUse})
}

// longSilent reports whether a region was not heard for so long, or never in this
// epoch, that it may have taken its floor back meanwhile.
func (l *Leader) longSilent(r *leaderRegion, now Instant) bool {
	return r.lastReport == 0 || now.Sub(r.lastReport) >= 2*l.cfg.Lease
}

// mayHaveUsedFloors forgets what a region told of its use.
func (l *Leader) mayHaveUsedFloors(i int) {
	for _, key := range l.order {
		key.regions[i].looked = false
	}
}

// firstWindow is the first window in which a share that grows now may count at once.
// What others gave up they may have used in any window up to the one of their
// acknowledgement. All have to have told one in this epoch, for the pool may have been
// filled in an earlier one. 0: unknown.
func (l *Leader) firstWindow(key *leaderKey) int64 {
	var last int64
	for i := range key.regions {
		told := key.regions[i].label
		if told == 0 && l.cfg.Regions[i].Takes() {
			return 0
		}
		last = max(last, told)
	}
	return last
}
