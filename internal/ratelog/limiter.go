// Package ratelog bounds the log lines about events that may happen at any rate.
package ratelog

import (
	"sync"
	"time"
)

// defaultPerMinute is the bound of a Limiter whose PerMinute is 0.
const defaultPerMinute = 60

// Limiter decides which events are logged. Events that mean the same share a key. The zero value
// allows 60 lines a minute, whatever their keys. A Limiter is safe for concurrent use; it must not
// be copied after its first use.
type Limiter struct {
	// Every is the shortest time between two lines of one key; 0: a key has no bound of its own.
	Every time.Duration
	// PerMinute is the largest number of lines a minute, of all keys together; 0: 60.
	PerMinute int

	mu     sync.Mutex
	logged map[string]time.Time // when the last line of each key was allowed
	minute time.Time            // when the current minute began
	lines  int                  // allowed in it
}

// Allow reports whether an event with this key may be logged at the time now, and counts it as
// logged if so. It remembers only keys of the last Every or the last minute.
func (l *Limiter) Allow(key string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.minute) >= time.Minute {
		l.minute, l.lines = now, 0
		for k, last := range l.logged {
			if k != key && now.Sub(last) >= l.Every {
				delete(l.logged, k)
			}
		}
	}
	perMinute := l.PerMinute
	if perMinute == 0 {
		perMinute = defaultPerMinute
	}
	if last, known := l.logged[key]; known && now.Sub(last) < l.Every || l.lines >= perMinute {
		return false
	}
	if l.logged == nil {
		l.logged = map[string]time.Time{}
	}
	l.logged[key] = now
	l.lines++
	return true
}

// Reset forgets every key and reports whether there was one. A caller that logs a lasting failure
// calls it when the failure is over: the result says whether the end is worth a line.
func (l *Limiter) Reset() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	any := len(l.logged) > 0
	clear(l.logged)
	return any
}
