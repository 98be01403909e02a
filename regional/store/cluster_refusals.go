package store

import (
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// refusedFor is how long calls for a slot fail at once after every attempt at it was refused. It is
// as long as a breaker is open at first.
const refusedFor = minOpen

// refusedSlots remembers slots that the cluster refuses, because they are moving or have no owner. A
// call that waits for such a slot also delays its jobs in other slots. So one call finds out about the
// slot, and the others fail at once. The zero value is ready. It has at most as many entries as there
// are slots. Safe for concurrent use.
type refusedSlots struct {
	mu    sync.Mutex
	until map[int]time.Time
}

// refusedRecently reports whether every attempt of a call at a slot was refused during the last refusedFor.
func (r *refusedSlots) refusedRecently(slot int, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	until, found := r.until[slot]
	if found && !now.Before(until) {
		delete(r.until, slot)
		found = false
	}
	return found
}

func (r *refusedSlots) note(slot int, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until == nil {
		r.until = map[int]time.Time{}
	}
	r.until[slot] = now.Add(refusedFor)
}

// blameNode turns the refusal of one slot into a *NodeError of its node, because it says nothing about
// the other slots.
func (j *job) blameNode() {
	slotOnly := redis.HasErrorPrefix(j.err, "TRYAGAIN") || redis.HasErrorPrefix(j.err, "CLUSTERDOWN Hash slot") ||
		redis.HasErrorPrefix(j.err, "MOVED") || redis.HasErrorPrefix(j.err, "ASK")
	if _, already := errors.AsType[*NodeError](j.err); slotOnly && !already && j.by != nil {
		j.err = &NodeError{Node: j.by.addr, Err: j.err}
	}
}
