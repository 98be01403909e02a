package budget

import (
	"cmp"
	"slices"
	"time"
)

// refused is a key that asked to become hot and found no place in the table.
type refused struct {
	create
	at Instant
}

const (
	// maxRefused bounds the keys that wait for a place: more than are made hot by one
	// plan are not worth knowing.
	maxRefused = 2 * maxPlanKeys
	// refusedFor is how long one waits without asking again: its region repeats itself
	// every half second, or less often if it asks for thousands.
	refusedFor = 4 * time.Second
)

// hasRoom reports whether there is a place for a key, so that a flood of keys that are used
// once does not hold all others at their floors: in a crowded table only for one that
// rejects, and in the last fifth of it not for a rule that has half of it.
func (l *Leader) hasRoom(rep KeyReport) bool {
	used := l.used()
	switch {
	case used >= l.most:
		return false
	case used >= l.most-l.most/5 && 2*l.held[rep.Key.Rule] >= l.most:
		return false
	}
	return rep.Rejecting || !l.crowded()
}

// crowded reports whether half of the table is in use. As many keys as are too many then
// leave it once they are not used (see Leader.coolAfter), though tokens of theirs are lost
// by that: places are scarcer.
func (l *Leader) crowded() bool { return 2*l.used() >= l.most }

// used is how many keys are hot or about to be.
func (l *Leader) used() int { return len(l.keys) + len(l.creating) }

// hold counts keys that have begun, or with -1 ceased, to be hot or about to be.
func (l *Leader) hold(k KeyID, n int) {
	if l.held[k.Rule] += n; l.held[k.Rule] == 0 {
		delete(l.held, k.Rule)
	}
}

// refuse notes a key that finds no place. A key refused stays at its floors:
// nobody gets more than the limit by it, and nobody all of it.
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

// waiting are the keys that wait for a place, of those that are wanted (nil: all), the
// busiest first: those that reject, then by what was asked of them. Who has not asked for a
// while is forgotten.
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

// admitRefused gives places that have become free to the busiest of those who wait.
func (l *Leader) admitRefused(now Instant) {
	if len(l.refused) == 0 || l.used() >= l.most {
		return
	}
	// In a crowded table most of them have no room now, and so need not be sorted each tick.
	for _, r := range l.waiting(now, l.hasRoom) {
		if !l.hasRoom(r.report) {
			continue // any more
		}
		delete(l.refused, r.report.Key)
		l.create(r.create)
	}
}

// create has a key made hot by the next plan.
func (l *Leader) create(asked create) {
	if !l.creating[asked.report.Key] && l.keys[asked.report.Key] == nil {
		l.creating[asked.report.Key] = true
		l.hold(asked.report.Key, 1)
		l.creates = append(l.creates, asked)
	}
}

// unmake ends that a key is about to be hot: it is, or will not be.
func (l *Leader) unmake(k KeyID) {
	if l.creating[k] {
		delete(l.creating, k)
		l.hold(k, -1)
	}
}

// Refused is how many keys wait for a place in the hot table, full or crowded.
func (l *Leader) Refused() int { return len(l.refused) }
