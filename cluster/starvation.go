package cluster

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// wakeEvery spaces the looks at how late this process wakes up.
	wakeEvery = 10 * time.Millisecond
	// starvedPart of an election timeout, as a divisor, is how late a process wakes up that has too little
	// processor for Raft.
	starvedPart = 10
	// maxExcused bounds the ticks that starvation excuses: a leader that is starved for longer leads no
	// better than one that is stuck.
	maxExcused = 30
)

// starvation tells a leader without a processor from one that is stuck. The zero value has seen nothing.
type starvation struct {
	late    atomic.Int64 // the latest wake-up since the last tick, as a duration
	excused int
}

// watch looks how late this process wakes up, until ctx ends.
func (s *starvation) watch(ctx context.Context) {
	go func() {
		tick := time.NewTicker(wakeEvery)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			now := time.Now()
			s.woke(now.Sub(last) - wakeEvery)
			last = now
		}
	}()
}

// woke notes a wake-up that came so late.
func (s *starvation) woke(late time.Duration) {
	if int64(late) > s.late.Load() {
		s.late.Store(int64(late)) // only watch stores more than zero
	}
}

// excuses reports whether the tick of an election timeout that just came does not count, and begins the
// next one. One goroutine calls it.
func (s *starvation) excuses(electionTimeout time.Duration) bool {
	if time.Duration(s.late.Swap(0)) < electionTimeout/starvedPart || s.excused == maxExcused {
		return false
	}
	s.excused++
	return true
}
