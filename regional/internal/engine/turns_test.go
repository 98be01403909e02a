package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/storeguard"
	"aliquot/rules"
)

// countedTurns counts the turns that are taken.
type countedTurns struct {
	taken int
	parts atomic.Int64 // taken and left by the calls of the store
}

func (c *countedTurns) Leave(n int)                             { c.taken -= n }
func (c *countedTurns) Retake(n int)                            { c.taken += n }
func (c *countedTurns) TakePart(_ context.Context, n int) error { c.parts.Add(int64(n)); return nil }
func (c *countedTurns) LeavePart(n int)                         { c.parts.Add(-int64(n)) }

// TestACallKeepsTheTurnsOfWhatWaitsForTheStore: of its other requests, which are decided, other calls have the turns. A
// call that goes to the store in parts has the turns of these.
func TestACallKeepsTheTurnsOfWhatWaitsForTheStore(t *testing.T) {
	for name, c := range map[string]struct{ limited, free, kept, parts int }{
		"two of five wait":          {limited: 2, free: 3, kept: 2},
		"all wait":                  {limited: 3, kept: 3},
		"none waits":                {free: 4, kept: 1},
		"all of a large call wait":  {limited: 65, kept: 1, parts: 65},
		"two of a large call wait":  {limited: 2, free: 68, kept: 1, parts: 2},
		"none of a large call wait": {free: 70, kept: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				now := func() budget.Instant { return budget.Instant(100*time.Second) + budget.Instant(time.Since(began)) }
				l := limiterBefore(t, &moodyStore{}, "e1", now, "rules:\n  - id: r0\n    match: {attributes: {limited: 'yes'}}\n    params: {capacity: 100, refill_rate: 1}\n")
				turns := &countedTurns{taken: c.limited + c.free}
				if turns.taken > storeguard.GroupsPerCall {
					turns.taken = 1
					turns.parts.Add(storeguard.GroupsPerCall)
				}
				l.turns = turns
				var requests []charge.Request
				for n := range c.limited + c.free {
					r := charge.Request{Attributes: rules.Attributes{{Name: "api_key", Value: string(rune('a' + n))}}, Cost: limit.Token}
					if n < c.limited {
						r.Attributes = append(r.Attributes, rules.Attribute{Name: "limited", Value: "yes"})
					}
					requests = append(requests, r)
				}
				s := &charge.Scratch{Turns: turns.taken, Part: int(turns.parts.Load())}
				var done atomic.Bool
				go func() {
					if _, err := l.DecideIn(t.Context(), requests, s); err != nil {
						t.Error(err)
					}
					done.Store(true)
				}()
				if synctest.Wait(); done.Load() != (c.limited == 0) {
					t.Fatalf("decided %t before the store has answered", done.Load())
				}
				if turns.taken != c.kept || turns.parts.Load() != int64(c.parts) {
					t.Errorf("%d turns and %d of parts are taken, want %d and %d", turns.taken, turns.parts.Load(), c.kept, c.parts)
				}
				<-time.After(time.Minute) // of the bubble's clock: the store has answered
				if !done.Load() || s.Turns != turns.taken || int64(s.Part) != turns.parts.Load() {
					t.Errorf("decided %t; the caller knows of %d turns and %d, and %d and %d are taken", done.Load(), s.Turns, s.Part, turns.taken, turns.parts.Load())
				}
			})
		})
	}
}
