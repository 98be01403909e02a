package engine

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/rules"
)

// countedTurns counts the turns that are taken.
type countedTurns struct{ taken int }

func (c *countedTurns) Leave(n int)  { c.taken -= n }
func (c *countedTurns) Retake(n int) { c.taken += n }

// TestACallKeepsTheTurnsOfWhatWaitsForTheStore: of its other requests, which are decided, other calls have the turns.
func TestACallKeepsTheTurnsOfWhatWaitsForTheStore(t *testing.T) {
	for name, c := range map[string]struct{ limited, free, kept int }{
		"two of five wait": {limited: 2, free: 3, kept: 2},
		"all wait":         {limited: 3, kept: 3},
		"none waits":       {free: 4, kept: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				now := func() budget.Instant { return budget.Instant(100*time.Second) + budget.Instant(time.Since(began)) }
				l := limiterBefore(t, &moodyStore{}, "e1", now, "rules:\n  - id: r0\n    match: {attributes: {limited: 'yes'}}\n    params: {capacity: 100, refill_rate: 1}\n")
				turns := &countedTurns{taken: c.limited + c.free}
				l.turns = turns
				var requests []charge.Request
				for n := range c.limited + c.free {
					r := charge.Request{Attributes: rules.Attributes{{Name: "api_key", Value: string(rune('a' + n))}}, Cost: limit.Token}
					if n < c.limited {
						r.Attributes = append(r.Attributes, rules.Attribute{Name: "limited", Value: "yes"})
					}
					requests = append(requests, r)
				}
				s := &charge.Scratch{Turns: turns.taken}
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
				if turns.taken != c.kept {
					t.Errorf("%d turns are taken, want %d", turns.taken, c.kept)
				}
				<-time.After(time.Minute) // of the bubble's clock: the store has answered
				if !done.Load() || s.Turns != turns.taken {
					t.Errorf("decided %t; the caller knows of %d turns, and %d are taken", done.Load(), s.Turns, turns.taken)
				}
			})
		})
	}
}
