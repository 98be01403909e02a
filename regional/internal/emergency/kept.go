package emergency

import (
	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/internal/recall"
)

// Kept is what a daemon that stops remembers of its store's records, for its next run.
type Kept struct {
	// Contents is the epoch of the store contents that it remembers.
	Contents string
	Records  *recall.Snapshot
	// Back and Alone are as in the limit: what is remembered of before does not count.
	Back, Alone budget.Instant
}

// Keep returns what is remembered, when this daemon spends no more. It returns nil if another daemon of
// the region may have spent.
func (e *Limit) Keep() *Kept {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left || !e.isAlone(e.now()) || e.stopped != 0 || e.contents == "" || e.last.Waits() {
		return nil
	}
	records := e.table.Snapshot(e.now())
	if records == nil {
		return nil
	}
	return &Kept{Contents: e.contents, Records: records, Back: e.back, Alone: e.alone}
}

// Return takes what the last run of this daemon remembered. Resume or Forgo decides about it. sameClock:
// the daemon's clock has run on since. It must be called before anything else.
func (e *Limit) Return(k *Kept, sameClock bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = recall.NewReturn(k.Records, k.Contents, sameClock, e.now())
	e.kept, e.sameClock = k, sameClock
	e.returns.Store(true)
}

// HoldsBack reports whether this daemon must not spend by its store yet; see recall.Return. contents is
// the epoch of the store's contents.
func (e *Limit) HoldsBack(contents string) bool {
	if !e.returns.Load() {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last.HoldsBack(contents)
}

// Undecided reports whether this daemon may come to hold back, or does; see HoldsBack. contents is the epoch of the store's
// contents; empty: it has not told them.
func (e *Limit) Undecided(contents string) bool {
	return e.returns.Load() && (contents == "" || e.HoldsBack(contents))
}

// Resume continues with what the last run remembered: no other daemon of the region has spent since.
// contents is the epoch of the store's contents. It returns how many keys the store will be told of; 0 if
// it has its records still.
func (e *Limit) Resume(contents string) (keys int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now, before, k := e.now(), e.table, e.kept
	e.kept = nil
	if k != nil {
		e.resumeSince(k, now)
		if k.Contents != contents && e.table.Owing() > 0 {
			// Without any contents it has admitted what is the region's alone.
			e.table.HoldsUntil(now + 1)
			k.add(e.table.Snapshot(now), k.Records.Shift(now, e.sameClock))
			before = recall.New(recall.DefaultKeys, now)
		}
	}
	e.left, e.lapses = false, 0 // the other daemon that a coordinator has heard of was this one's last run
	if e.table = e.last.Resume(before, contents, now); e.table == before {
		// It knows the records of these contents now, and they may be lost before a check comes.
		e.begin(contents)
		e.see(contents, now)
		e.count()
		return 0
	}
	e.contents = ""
	e.see(contents, now)
	e.count()
	return e.table.Len()
}

// add adds what this run owes of buckets: of a limit that counts nothing is admitted before the store's clock is known. Its
// clock is ahead of that of the last run by a shift. Of a key that the last run did not know nothing more is known than
// what this run has earned.
func (k *Kept) add(this *recall.Snapshot, shift budget.Instant) {
	known := make(map[budget.KeyID]int, len(k.Records.Keys))
	for i := range k.Records.Keys {
		known[k.Records.Keys[i].Key] = i
	}
	for _, of := range this.Keys {
		of.At, of.Full, of.LostUntil = of.At-shift, of.Full-shift, of.LostUntil-shift
		if i, is := known[of.Key]; is {
			key := &k.Records.Keys[i]
			if of.Owed > 0 {
				key.At = max(key.At, of.At) // what was earned before that may have been above what the bucket holds
			}
			key.Left, key.Owed, key.Full = key.Left-of.Owed, key.Owed+of.Owed, max(key.Full, of.Full)
		} else {
			k.Records.Keys = append(k.Records.Keys, of)
		}
	}
}

// resumeSince continues with the last run's times from when on what was earned is this daemon's own. The caller holds mu.
func (e *Limit) resumeSince(k *Kept, now budget.Instant) {
	shift := k.Records.Shift(now, e.sameClock)
	if k.Back != 0 {
		e.back = max(e.back, k.Back+shift)
	}
	if k.Alone != 0 {
		e.alone = max(e.alone, k.Alone+shift)
	}
}

// Forgo forgets what the last run remembered, because it does not hold.
func (e *Limit) Forgo() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forgo()
}

// forgo is Forgo for a caller that holds mu.
func (e *Limit) forgo() {
	e.kept = nil
	e.last.Forgo()
	e.returns.Store(e.last.Waits())
}

// Returning returns the right by which the share of a key changes that the region had before: that of a daemon
// which has come back and knows what its last run knew, or the right itself.
func (e *Limit) Returning(r budget.Right) budget.Right {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.last.Resumed() {
		return r
	}
	return entitlement.Returning(r)
}

// Opened ends the wait for the first session. It is called when the daemon holds a lease, or is cut off.
func (e *Limit) Opened() {
	if !e.returns.Load() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last.Opened()
	e.kept = nil
	e.returns.Store(false)
}
