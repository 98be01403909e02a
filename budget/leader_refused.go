package budget

import (
	"cmp"
	"slices"
	"time"
)

// refused is a key that asked to become hot while the table was full.
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

// full reports whether no more keys can become hot.
func (l *Leader) full() bool { return len(l.keys)+len(l.creating) >= l.most }

// refuse notes a key that finds the table full. A key refused stays at its floors:
// nobody gets more than the limit by it, and nobody all of it.
func (l *Leader) refuse(asked create, now Instant) {
	l.stats.Refused++
	if _, known := l.refused[asked.report.Key]; !known && len(l.refused) >= maxRefused {
		waiting := l.waiting(now)
		for _, r := range waiting[min(len(waiting), maxRefused/2):] {
			delete(l.refused, r.report.Key)
		}
	}
	l.refused[asked.report.Key] = refused{asked, now}
}

// waiting are the keys that wait for a place, the busiest first: those that reject,
// then by what was asked of them. Who has not asked for a while is forgotten.
func (l *Leader) waiting(now Instant) []refused {
	out := make([]refused, 0, len(l.refused))
	for k, r := range l.refused {
		if now.Sub(r.at) > refusedFor {
			delete(l.refused, k)
			continue
		}
		out = append(out, r)
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
	if len(l.refused) == 0 || l.full() {
		return
	}
	for _, r := range l.waiting(now) {
		if l.full() {
			return
		}
		delete(l.refused, r.report.Key)
		l.create(r.create)
	}
}

// create has a key made hot by the next plan.
func (l *Leader) create(asked create) {
	if !l.creating[asked.report.Key] && l.keys[asked.report.Key] == nil {
		l.creating[asked.report.Key] = true
		l.creates = append(l.creates, asked)
	}
}

// Refused is how many keys wait for a place in the full hot table.
func (l *Leader) Refused() int { return len(l.refused) }
