package bench

import (
	"sync"
	"time"
)

// dryAfter is how many denials in a row, for each region, say that a client has
// used up what it had: more than calls under way at once can bring back.
const dryAfter = 10

// rest is when a client may send again. Its workers share it.
type rest struct {
	mu     sync.Mutex
	denied int // in a row
	until  time.Duration
}

// restsUntil is when the lane's client may send; a lane has one if clients rest.
func (r *run) restsUntil(l *lane) time.Duration {
	if r.rests == nil {
		return 0
	}
	one := &r.rests[l.slots[0].client]
	one.mu.Lock()
	defer one.mu.Unlock()
	return one.until
}

// rest books an answer, and lets the client rest if it is dry.
func (r *run) rest(client uint32, allowed bool, now time.Duration) {
	if r.rests == nil {
		return
	}
	one := &r.rests[client]
	one.mu.Lock()
	defer one.mu.Unlock()
	if allowed || now < one.until { // what was under way when it began to rest says nothing
		one.denied = 0
		return
	}
	if one.denied++; one.denied >= dryAfter*len(r.targets) {
		one.denied, one.until = 0, now+r.config.Rest
		r.rested.Add(1)
	}
}
