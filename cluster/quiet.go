package cluster

import (
	"sync"
	"time"
)

const (
	// warnEvery keeps a lasting fault visible without filling the log.
	warnEvery = time.Minute
	// maxQuietKeys bounds the memory of what was said: far above the number of peers,
	// reached only when strangers knock from many addresses.
	maxQuietKeys = 256
)

// quiet lets each repeated message through once a minute. It is safe for
// concurrent use; make it with newQuiet.
type quiet struct {
	mu   sync.Mutex
	said map[string]time.Time
}

func newQuiet() *quiet { return &quiet{said: map[string]time.Time{}} }

// allow reports whether the message named key may be said now. When the table is
// full of recent ones, a new message stays unsaid.
func (q *quiet) allow(key string, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if last, ok := q.said[key]; ok && now.Sub(last) < warnEvery {
		return false
	}
	if len(q.said) >= maxQuietKeys {
		q.forget(now)
	}
	if len(q.said) >= maxQuietKeys {
		return false
	}
	q.said[key] = now
	return true
}

func (q *quiet) forget(now time.Time) {
	for key, last := range q.said {
		if now.Sub(last) >= warnEvery {
			delete(q.said, key)
		}
	}
}
