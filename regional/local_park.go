package regional

import (
	"context"
	"fmt"
	"time"

	"aliquot/budget"
	"aliquot/internal/chunk"
)

// At most one call of a busy key is under way, as far as that helps: while it brings a
// chunk, the other checks of the key would only carry what it brings away from one
// another, each in a call of its own. So they wait for it and are looked at again. All
// such waiting of a request together is bounded by callerPatience, and a call that fails
// ends it: of a store that is silent nobody hears sooner by waiting for one another.

// parkRounds is how often a check waits for another one's call before it makes its own.
const parkRounds = 3

// parks notes what a request has to wait for whose limits have these entries; false if it
// is to ask the store itself. The locks are held.
func (l *localPlan) parks(s *scratch, now budget.Instant) bool {
	waits := false
	for i, e := range l.entries[:l.n] {
		if l.found[i] == chunk.Holds || e.gone || !e.shares || e.stalled || !e.chunk.Busy(now) || !e.claimed && !e.chunk.Awaits() {
			continue
		}
		waits = true
		s.awaits = append(s.awaits, e.landing())
	}
	return waits
}

// landing is closed when what is on its way to the entry has come. The caller holds mu.
func (e *localEntry) landing() <-chan struct{} {
	if e.landed == nil {
		e.landed = make(chan struct{})
	}
	return e.landed
}

// land wakes those who wait for what was on its way here. The caller holds mu.
func (e *localEntry) land() {
	if e.landed != nil && !e.claimed && !e.chunk.Awaits() {
		close(e.landed)
		e.landed = nil
	}
}

// fail wakes all who wait for the entry's calls, of which one has failed, or was given up
// and is under way still; until one is answered nobody waits for another. The caller holds
// mu.
func (e *localEntry) fail() {
	e.stalled = true
	if e.landed != nil {
		close(e.landed)
		e.landed = nil
	}
}

// claim has others that come for the keys of these groups wait, until unclaim.
func (s *scratch) claim(groups []*group, now budget.Instant) {
	for _, g := range groups {
		for i := range g.asks {
			e := g.asks[i].local
			if e == nil {
				continue
			}
			e.mu.Lock()
			if e.shares && !e.claimed && !e.stalled && e.chunk.Busy(now) {
				e.claimed = true
				s.claimed = append(s.claimed, e)
			}
			e.mu.Unlock()
		}
	}
}

// unclaim ends the claims of a round, whatever came of its calls; failed: the store did
// not answer all of them.
func (s *scratch) unclaim(failed bool) {
	for _, e := range s.claimed {
		e.mu.Lock()
		e.claimed = false
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

// waitParked waits for what the parked requests wait for, as long as there is patience.
func (s *scratch) waitParked(ctx context.Context) error {
	defer func() {
		clear(s.awaits)
		s.awaits = s.awaits[:0]
	}()
	if len(s.awaits) == 0 {
		return nil
	}
	enough := time.NewTimer(time.Until(s.until))
	defer enough.Stop()
	for _, landed := range s.awaits {
		select {
		case <-landed:
		case <-enough.C:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errGone, ctx.Err())
		}
	}
	return nil
}
