package penalty

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	// leastDelay is the delay of the first delayed answer on a connection that gets nothing but
	// denials. Each further answer is delayed twice as long, up to MostDelay. A client that waits as
	// it was told does not notice that.
	leastDelay = time.Millisecond
	// MostDelay is the longest delay of one answer.
	MostDelay = 100 * time.Millisecond
)

// Streak counts the denials in a row on one connection. The zero value has none. Safe
// for concurrent use.
type Streak struct{ denials atomic.Uint32 }

// Answered counts one answer, and returns its delay. It is 0 for an answer that admits, and for the
// first denials in a row, as many as after says.
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
