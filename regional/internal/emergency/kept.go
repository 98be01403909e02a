package emergency

import (
	"aliquot/internal/recall"
)

// Kept is what a daemon that stops remembers of its store's records, for its next run.
type Kept struct {
	// Contents is the epoch of the store contents that it remembers.
	Contents string
	Records  *recall.Snapshot
}

// returning is the state of a daemon that has started with what its last run remembered.
type returning struct {
	// kept is not nil until a coordinator has said whether it still holds. sameClock: the daemon's clock
	// has run on since.
	kept      *Kept
	sameClock bool
	// opening: it holds, and the session that said so is not in force yet.
	opening bool
	// resumed: it held, so nothing else has spent for this region before this daemon started.
	resumed bool
}

// Keep returns what is remembered, when this daemon spends no more. It returns nil if another daemon of
// the region may have spent.
func (e *Limit) Keep() *Kept {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left || e.isBeside || e.isUnread || e.contents == "" || e.returning.kept != nil {
		return nil
	}
	records := e.table.Snapshot(e.now())
	if records == nil {
		return nil
	}
	return &Kept{Contents: e.contents, Records: records}
}

// Return takes what the last run of this daemon remembered. Resume or Forgo decides about it. sameClock:
// the daemon's clock has run on since. It must be called before anything else.
func (e *Limit) Return(k *Kept, sameClock bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.returning = returning{kept: k, sameClock: sameClock}
	e.holdsBack.Store(true)
}

// HoldsBack reports whether this daemon must not ask its store for anything yet. The store has other
// contents than the last run of this daemon knew, and a call would make records in it before it is known
// whether the daemon may tell it of the earlier ones.
func (e *Limit) HoldsBack(contents string) bool {
	if !e.holdsBack.Load() {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.returning.holdsBack(contents)
}

func (r *returning) holdsBack(contents string) bool {
	return r.opening || r.kept != nil && contents != "" && contents != r.kept.Contents
}

// Resume continues with what the last run remembered: no other daemon of the region has spent since.
// contents is the epoch of the store's contents. It returns how many keys the store will be told of; 0 if
// it has its records still, or if this run has admitted something by itself.
func (e *Limit) Resume(contents string) (keys int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.returning.kept
	e.returning.kept = nil
	if k == nil || k.Contents == contents || e.table.Owing() > 0 {
		e.holdsBack.Store(false)
		return 0
	}
	now := e.now()
	e.table = recall.Restore(k.Records, recall.DefaultKeys, now, e.returning.sameClock)
	e.table.HoldsUntil(now + 1)
	e.contents = k.Contents
	e.see(contents, now)
	e.returning.opening, e.returning.resumed = true, true
	e.count()
	return e.table.Len()
}

// Forgo forgets what the last run remembered, unless Resume has taken it.
func (e *Limit) Forgo() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.returning.kept = nil
	if !e.returning.opening {
		e.holdsBack.Store(false)
	}
}

// Opened ends the wait for the first session. It is called when the daemon holds a lease, or is cut off.
func (e *Limit) Opened() {
	if !e.holdsBack.Load() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.returning.kept, e.returning.opening = nil, false
	e.holdsBack.Store(false)
}
