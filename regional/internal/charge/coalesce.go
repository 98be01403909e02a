package charge

import (
	"context"
	"fmt"
	"time"

	"aliquot/budget"
	"aliquot/internal/prefetch"
)

// At most one call of a busy key is under way, as far as that helps. While it brings a chunk, calls
// of other checks would only take away from one another what it brings. So those checks wait for it
// and are then decided again. The waits of one request together are bounded by callerPatience. A
// call that fails ends all waits for it: with a silent store no check gets an answer sooner by
// waiting for another one.

// ParkRounds is how often a check waits for another check's call before it makes its own.
const ParkRounds = 3

// Parks records what a request with these entries has to wait for. It returns false if the request
// should ask the store itself. The caller holds the locks.
func (l *LocalPlan) Parks(s *Scratch, now budget.Instant) bool {
	waits := false
	for i, e := range l.Entries[:l.N] {
		if l.found[i] == prefetch.Holds || e.Gone || !e.Shares || e.Stalled || !e.Chunk.Busy(now) || !e.Claimed && !e.Chunk.Awaits() {
			continue
		}
		waits = true
		s.awaits = append(s.awaits, e.landing())
	}
	return waits
}

// landing returns a channel that is closed when the tokens on their way to the entry have arrived.
// The caller holds mu.
func (e *Entry) landing() <-chan struct{} {
	if e.landed == nil {
		e.landed = make(chan struct{})
	}
	return e.landed
}

// land wakes the checks that wait for tokens on their way here, once none are. The caller holds mu.
func (e *Entry) land() {
	if e.landed != nil && !e.Claimed && !e.Chunk.Awaits() {
		close(e.landed)
		e.landed = nil
	}
}

// fail wakes all checks that wait for the entry's calls, because one of these calls failed, or was
// given up and is still under way. Until a call is answered, no check waits for another one. The
// caller holds mu.
func (e *Entry) fail() {
	e.Stalled = true
	if e.landed != nil {
		close(e.landed)
		e.landed = nil
	}
}

// Claim makes other checks of the keys of these groups wait, until unclaim.
func (s *Scratch) Claim(groups []*Transaction, now budget.Instant) {
	for _, g := range groups {
		for i := range g.Asks {
			e := g.Asks[i].Local
			if e == nil {
				continue
			}
			e.mu.Lock()
			if e.Shares && !e.Claimed && !e.Stalled && e.Chunk.Busy(now) {
				e.Claimed = true
				s.claimed = append(s.claimed, e)
			}
			e.mu.Unlock()
		}
	}
}

// Unclaim ends the claims of a round, whatever the results of its calls. failed: the store did not
// answer all of them.
func (s *Scratch) Unclaim(failed bool) {
	for _, e := range s.claimed {
		e.mu.Lock()
		e.Claimed = false
		if failed {
			e.fail()
		} else {
			e.land()
		}
		e.mu.Unlock()
	}
	clear(s.claimed)
	s.claimed = s.claimed[:0]
}

// WaitParked waits for the calls that the parked requests wait for, at most until s.until.
func (s *Scratch) WaitParked(ctx context.Context) error {
	defer func() {
		clear(s.awaits)
		s.awaits = s.awaits[:0]
	}()
	if len(s.awaits) == 0 {
		return nil
	}
	enough := time.NewTimer(time.Until(s.Until))
	defer enough.Stop()
	for _, landed := range s.awaits {
		select {
		case <-landed:
		case <-enough.C:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrGone, ctx.Err())
		}
	}
	return nil
}
