package budget

import "time"

// MaxTail bounds KeyLimit.Tail: fixed windows of an hour. A leader waits this long for
// a limit that nobody has told it.
const MaxTail = 2 * time.Hour

// learn takes a limit as a region reads it. Regions whose rules differ may say
// different ones; a tail counts as the longest.
func (key *leaderKey) learn(limit KeyLimit) {
	key.limit = limit
	key.tail = max(key.tail, limit.Tail)
}

// tailOf is after how long, by the leader's clock, what was used under a right that
// has ended counts nowhere any more.
func (l *Leader) tailOf(key *leaderKey) time.Duration {
	if key.limit.Capacity == 0 {
		return l.cfg.lengthen(MaxTail)
	}
	return l.cfg.lengthen(key.tail)
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
// acknowledges no more than itself.
func (kr *keyRegion) acknowledge(rep KeyReport) {
	kr.inUse = 0
	if rep.InUse > rep.Share.Burst {
		kr.inUse = rep.InUse
	}
	kr.acked = kr.inUse == 0
	kr.label = max(kr.label, rep.Label)
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
