package penalty

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// The delay of an answer on a connection that hears nothing but denials: the first
// that is delayed waits leastDelay, each one after it twice as long, up to MostDelay,
// which nobody who waits as told notices.
const (
	leastDelay = time.Millisecond
	// MostDelay is the longest delay of one answer.
	MostDelay = 100 * time.Millisecond
)

// Streak counts the denials in a row on one connection. The zero value has none. Safe
// for concurrent use.
type Streak struct{ denials atomic.Uint32 }

// Answered counts one answer, and returns how long it is to wait before it leaves:
// nothing up to after denials in a row, nor ever for one that admits.
func (s *Streak) Answered(admitted bool, after uint32) time.Duration {
	if admitted {
		if s.denials.Load() != 0 {
			s.denials.Store(0)
		}
		return 0
	}
	n := s.denials.Load()
	if n <= after+uint32(bits.Len(uint(MostDelay/leastDelay))) { // further ones change nothing
		n = s.denials.Add(1)
	}
	if n <= after {
		return 0
	}
	return min(leastDelay<<min(n-after-1, 10), MostDelay)
}
