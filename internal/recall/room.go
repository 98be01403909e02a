package recall

import (
	"slices"
	"time"

	"aliquot/budget"
)

const (
	// evictionSample is how many keys are compared at most to make room in a full table. The one that was
	// settled longest ago is dropped.
	evictionSample = 8
	// maxDropped is how many keys are dropped at once, if that is at most one of droppedPart.
	maxDropped, droppedPart = 16, 4096
)

// makeRoom makes room in a full table: it drops keys that owe nothing and have no call in flight. It reports whether
// there is room. In a large table it drops several at once, because the cells of their index lie far apart; see warm.
func (t *Table) makeRoom(now budget.Instant) bool {
	if t.keys.len() < t.max {
		return true
	}
	var dropped [maxDropped]budget.KeyID
	var since [maxDropped]budget.Instant
	n := 0
	for range max(1, min(maxDropped, t.max/droppedPart)) {
		if key, at, found := t.oldest(now); found {
			dropped[n], since[n] = key, at
			n++
		}
	}
	t.keys.warm(dropped[:n])
	// The place that is free last is taken first. So the next keys get the places in the order in which the hand of oldest
	// comes by them, and of keys that were used once the oldest is always next.
	for i, key := range slices.Backward(dropped[:n]) {
		t.drop(key, since[i], now)
	}
	return t.keys.len() < t.max
}

// oldest returns the key that was settled longest ago among the next evictionSample ones, and when that was; false: none
// of them can be dropped. It looks no further once a key was settled before the table was whole: to drop that key costs no
// knowledge of others.
func (t *Table) oldest(now budget.Instant) (oldest budget.KeyID, at budget.Instant, found bool) {
	var behind int32
	for key, e := range t.keys.some(evictionSample) {
		since := t.atLeastNothing(key, e)
		if e.asked != 0 || since > now || !t.nothingOwed(key, now) || found && since >= at {
			continue
		}
		oldest, at, found, behind = key, since, true, t.keys.hand
		if at <= t.whole {
			break
		}
	}
	if found {
		t.keys.hand = behind
	}
	return oldest, at, found
}

// drop forgets a key that owes nothing, has no call in flight, and was settled at an instant.
func (t *Table) drop(key budget.KeyID, at, now budget.Instant) {
	if !t.keys.delete(key) {
		return // a small table was looked through more than once
	}
	delete(t.taken, key)
	t.decidedSince(key, now)
	t.disown(key, func(slot) bool { return true })
	if d := t.debt[key]; d != nil {
		at = max(at, d.lostUntil())
		d.paid, d.slots, d.lost, d.folded, d.use = d.total, nil, nil, lostCalls{}, nil // none of it matters any more
		t.settle(key, d)
	}
	t.whole = max(t.whole, at)
}

// atLeastNothing returns since when a known key's bucket has held at least nothing: it earns what it owes first, and calls
// may have taken all that was left. For a counting limit it is when the store's latest answer came.
func (t *Table) atLeastNothing(key budget.KeyID, e *entry) budget.Instant {
	since := max(e.at, t.taken[key].at)
	if !e.counts && e.left < 0 {
		rate := max(1, e.basis)
		secs := min((int64(-e.left)+rate-1)/rate, 1<<32)
		since = max(since, e.at.Add(time.Duration(secs)*time.Second))
	}
	return since
}
