package charge

import (
	"context"
	"fmt"
	"time"

	"aliquot/budget"
	"aliquot/internal/prefetch"
)

// Checks of one busy key share a call to the store. While one call that may bring a chunk is in
// flight, the other checks wait for it and are then decided again: calls of their own would only
// compete for the same tokens. Scratch.Until bounds all waits of one request together. A call that
// fails ends all waits for it, because a silent store answers no check sooner.

// MaxWaitRounds is how often a check waits for another check's call before it makes its own.
const MaxWaitRounds = 3

// JoinInFlight adds to s the calls in flight that a request with these entries waits for. It returns
// false if there are none, so that the request asks the store itself. The caller holds the locks.
func (l *LocalPlan) JoinInFlight(s *Scratch, now budget.Instant) bool {
	waits := false
	for i, e := range l.Entries[:l.N] {
		if l.found[i] == prefetch.Holds || e.Evicted || !e.Shares || e.Stalled || !e.Chunk.Busy(now) || !e.InFlight && !e.Chunk.InTransit() {
			continue
		}
		waits = true
		s.waits = append(s.waits, e.doneLocked())
	}
	return waits
}

// doneLocked returns a channel that is closed when no call in flight can bring tokens to the entry
// any more. The caller holds mu.
func (e *Entry) doneLocked() <-chan struct{} {
	if e.done == nil {
		e.done = make(chan struct{})
	}
	return e.done
}

// finishLocked wakes the waiting checks once no call in flight can bring tokens any more. The caller
// holds mu.
func (e *Entry) finishLocked() {
	if e.done != nil && !e.InFlight && !e.Chunk.InTransit() {
		close(e.done)
		e.done = nil
	}
}

// stallLocked wakes all checks that wait for the entry's calls, because one of these calls failed or
// was given up. Until the store answers a call of the key, no check waits for another one. The
// caller holds mu.
func (e *Entry) stallLocked() {
	e.Stalled = true
	if e.done != nil {
		close(e.done)
		e.done = nil
	}
}

// MarkInFlight makes other checks of the busy keys of these groups wait, until ClearInFlight.
func (s *Scratch) MarkInFlight(groups []*Transaction, now budget.Instant) {
	for _, g := range groups {
		for i := range g.Charges {
			e := g.Charges[i].Local
			if e == nil {
				continue
			}
			e.mu.Lock()
			if e.Shares && !e.InFlight && !e.Stalled && e.Chunk.Busy(now) {
				e.InFlight = true
				s.inFlight = append(s.inFlight, e)
			}
			e.mu.Unlock()
		}
	}
}

// ClearInFlight ends what MarkInFlight began. failed reports that the store did not answer all calls
// of the round.
func (s *Scratch) ClearInFlight(failed bool) {
	for _, e := range s.inFlight {
		e.mu.Lock()
		e.InFlight = false
		if failed {
			e.stallLocked()
		} else {
			e.finishLocked()
		}
		e.mu.Unlock()
	}
	clear(s.inFlight)
	s.inFlight = s.inFlight[:0]
}

// WaitInFlight waits until the calls that JoinInFlight has added are over, at most until s.Until. Its
// error is ErrGone.
func (s *Scratch) WaitInFlight(ctx context.Context) error {
	defer func() {
		clear(s.waits)
		s.waits = s.waits[:0]
	}()
	if len(s.waits) == 0 {
		return nil
	}
	enough := time.NewTimer(time.Until(s.Until))
	defer enough.Stop()
	for _, landed := range s.waits {
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
