package recall

import "aliquot/budget"

// Return is what a daemon knows of its last run until its first session. The last run may have stopped in
// order and left a Snapshot. That holds if no other daemon of the region has come meanwhile, which a
// coordinator says in the answer that opens the session.
//
// Until then the daemon must not ask a store that has lost the contents of the snapshot for anything. A
// call would make records from nothing, and what is remembered would never replace those. The zero value
// is a daemon that has no last run. It is not safe for concurrent use.
type Return struct {
	saved     *Snapshot // nil: it is decided whether it holds
	contents  string    // of the store, when it was taken
	sameClock bool
	began     budget.Instant
	opening   bool // it holds, and the session that says so is not in force yet
	resumed   bool
}

// NewReturn returns the return to a snapshot of a store's contents, for a daemon that begins now. sameClock:
// its clock has run on since.
func NewReturn(saved *Snapshot, contents string, sameClock bool, now budget.Instant) Return {
	return Return{saved: saved, contents: contents, sameClock: sameClock, began: now}
}

// Waits reports whether something is left to be decided, or to be opened.
func (r *Return) Waits() bool { return r.saved != nil || r.opening }

// HoldsBack reports whether the daemon must not spend yet. contents are those of the store; empty: it has
// not told them.
func (r *Return) HoldsBack(contents string) bool {
	return r.opening || r.saved != nil && contents != "" && contents != r.contents
}

// Resume continues with the snapshot, because it holds, and returns the table to use from now on. t is the
// present one, contents are those of the store. If the store has its earlier contents still, t stays and
// learns of what it does not know. If this run has admitted something by itself, which the snapshot does
// not know, t stays as it is.
func (r *Return) Resume(t *Table, contents string, now budget.Instant) *Table {
	saved := r.saved
	r.saved = nil
	switch {
	case saved == nil:
		return t
	case contents == r.contents:
		t.adopt(saved, r.began, now, r.sameClock)
		return t
	case t.Owing() > 0:
		return t
	}
	next := Restore(saved, t.max, now, r.sameClock)
	next.HoldsUntil(now + 1)
	next.Emptied(now)
	r.opening, r.resumed = true, true
	return next
}

// Forgo forgets the snapshot, because it does not hold. After Resume it has no effect.
func (r *Return) Forgo() { r.saved = nil }

// Opened ends the wait: the daemon holds a lease, or no coordinator answers it any more.
func (r *Return) Opened() { r.saved, r.opening = nil, false }

// Resumed reports whether the daemon knows all that its region has spent, also before its first session.
func (r *Return) Resumed() bool { return r.resumed }
