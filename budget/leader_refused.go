package budget

import (
	"cmp"
	"slices"
	"time"
)

// refused is a key that asked to become hot while the table had no room for it.
type refused struct {
	create
	at Instant
}

const (
	// maxRefused bounds the keys that wait for room. More than one plan makes hot are not worth
	// knowing.
	maxRefused = 2 * maxPlanKeys
	// refusedFor is how long a key waits without asking again. Its region repeats the request every
	// half second, or less often if it asks for thousands of keys.
	refusedFor = 4 * time.Second
)

// hasRoom reports whether the table has room for a key. In a crowded table it has room only for a
// key that rejects. In the last fifth it has none for a rule that has half of the table. So a flood
// of keys that are used once does not hold all others at their floors.
func (l *Leader) hasRoom(rep KeyReport) bool {
	used := l.used()
	switch {
	case used >= l.maxHot:
		return false
	case used >= l.maxHot-l.maxHot/5 && 2*l.held[rep.Key.Rule] >= l.maxHot:
		return false
	}
	return rep.Rejecting || !l.crowded()
}

// crowded reports whether half of the table is in use. Unused keys then leave it as soon as there
// are too many (see Leader.coolAfter), although that loses tokens of theirs: room is scarcer.
func (l *Leader) crowded() bool { return 2*l.used() >= l.maxHot }

// used returns how many keys are hot or about to be.
func (l *Leader) used() int { return len(l.keys) + len(l.creating) }

// countHot adds n to the count of a rule's keys that are hot or about to be; n is 1 or -1.
func (l *Leader) countHot(k KeyID, n int) {
	if l.held[k.Rule] += n; l.held[k.Rule] == 0 {
		delete(l.held, k.Rule)
	}
}

// refuse records a key for which the table has no room. A refused key stays at its floors: no
// region gets more than the limit, and none gets all of it.
func (l *Leader) refuse(asked create, now Instant) {
	l.stats.Refused++
	if _, known := l.refused[asked.report.Key]; !known && len(l.refused) >= maxRefused {
		waiting := l.waiting(now, nil)
		for _, r := range waiting[min(len(waiting), maxRefused/2):] {
			delete(l.refused, r.report.Key)
		}
	}
	l.refused[asked.report.Key] = refused{asked, now}
}

// waiting returns the keys that wait for room and are wanted, the busiest first. A nil wanted
// selects all. Keys that reject come first, then those for which most was asked. A key that has not
// asked for refusedFor is forgotten.
func (l *Leader) waiting(now Instant, wanted func(KeyReport) bool) []refused {
	var out []refused
	for k, r := range l.refused {
		if now.Sub(r.at) > refusedFor {
			delete(l.refused, k)
			continue
		}
		if wanted == nil || wanted(r.report) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b refused) int {
		if a.report.Rejecting != b.report.Rejecting {
			if a.report.Rejecting {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.report.Offered, a.report.Offered), a.report.Key.Compare(b.report.Key))
	})
	return out
}

// admitRefused gives free places to the busiest of the waiting keys.
func (l *Leader) admitRefused(now Instant) {
	if len(l.refused) == 0 || l.used() >= l.maxHot {
		return
	}
	// In a crowded table most of them have no room now, so they need not be sorted each tick.
	for _, r := range l.waiting(now, l.hasRoom) {
		if !l.hasRoom(r.report) {
			continue // no longer
		}
		delete(l.refused, r.report.Key)
		l.create(r.create)
	}
}

// create lets the next plan make a key hot.
func (l *Leader) create(asked create) {
	if !l.creating[asked.report.Key] && l.keys[asked.report.Key] == nil {
		l.creating[asked.report.Key] = true
		l.countHot(asked.report.Key, 1)
		l.creates = append(l.creates, asked)
	}
}

// endCreation ends the creation of a key: it is hot, or will not be.
func (l *Leader) endCreation(k KeyID) {
	if l.creating[k] {
		delete(l.creating, k)
		l.countHot(k, -1)
	}
}

// Refused returns how many keys wait for room in the hot table.
func (l *Leader) Refused() int { return len(l.refused) }
