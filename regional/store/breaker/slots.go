package breaker

import (
	"sync"
	"time"
)

// refusedFor is how long calls for a slot fail at once after every attempt at it was refused. It is
// as long as a node that does not answer is left alone.
const refusedFor = TrialEvery

// Slots remembers slots that the cluster refuses, because they are moving or have no owner. A
// call that waits for such a slot also delays its jobs in other slots. So one call finds out about the
// slot, and the others fail at once. The zero value is ready. It has at most as many entries as there
// are slots. Safe for concurrent use.
type Slots struct {
	mu    sync.Mutex
	until map[int]time.Time
}

// Refused reports whether every attempt of a call at a slot was refused within refusedFor.
func (r *Slots) Refused(slot int, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	until, found := r.until[slot]
	if found && !now.Before(until) {
		delete(r.until, slot)
		found = false
	}
	return found
}

// Note records that every attempt at a slot was refused.
func (r *Slots) Note(slot int, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until == nil {
		r.until = map[int]time.Time{}
	}
	r.until[slot] = now.Add(refusedFor)
}
