package store

import (
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// refusedFor is how long a slot that was refused to the end is asked for without waiting: as
// long as a breaker is open at first.
const refusedFor = openLeast

// refusedSlots remembers slots that the cluster refuses, because they are on the move or nobody
// has them. Every call that waited for one would hold up those of other slots that go along
// with it, so one call finds out about it and the others are refused at once. The zero value
// is ready; there are no more entries than slots. Safe for concurrent use.
type refusedSlots struct {
	mu    sync.Mutex
	until map[int]time.Time
}

// lately tells whether a slot was refused to the end a while ago.
func (r *refusedSlots) lately(slot int, now time.Time) bool {
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

// inPart makes the refusal of one slot a failure of its node alone: it says nothing about
// the other slots.
func (j *job) inPart() {
	slotOnly := redis.HasErrorPrefix(j.err, "TRYAGAIN") || redis.HasErrorPrefix(j.err, "CLUSTERDOWN Hash slot") ||
		redis.HasErrorPrefix(j.err, "MOVED") || redis.HasErrorPrefix(j.err, "ASK")
	if _, already := errors.AsType[*NodeError](j.err); slotOnly && !already && j.by != nil {
		j.err = &NodeError{Node: j.by.addr, Err: j.err}
	}
}
