package engine

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/prefetch"
	"aliquot/internal/storeclock"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/authority"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/charge/chargetest"
	"aliquot/regional/internal/storeguard"
	"aliquot/rules"
)

// TestRepeatedReservationLosesNothing: the store has looked at nothing, so what was taken
// along is here again.
func TestRepeatedReservationLosesNothing(t *testing.T) {
	auth := authority.New(budget.NewRegion(0, budget.Config{}, 1, chargetest.Noon), storeclock.New(), func() budget.Instant { return chargetest.Noon })
	rule := &rules.Rule{ID: "r0", LocalCache: true}
	e := chargetest.Lent(t, auth.Local, rule)
	groups := []*charge.Transaction{{Charges: []charge.Charge{{Planned: charge.Planned{Rule: rule, Key: e.Key, Cost: limit.Token}}}}}
	(&Engine{Auth: auth}).recall(groups, time.Minute)
	auth.Local.Checkout(&charge.Header{}, groups[0], chargetest.Noon)
	asked := &groups[0].Charges[0].Chunk
	if asked.Back != 10*limit.Token || asked.Want != 0 || e.Chunk.Peek(limit.Token, chargetest.Noon) == prefetch.Holds {
		t.Errorf("taken along: %+v, %d are left", asked, e.Chunk.Left())
	}
	charge.NotExecuted(groups)
	if e.Chunk.Left() != 10*limit.Token || e.Chunk.Peek(limit.Token, chargetest.Noon) != prefetch.Holds || e.Chunk.TakeLost() != 0 || e.Chunk.InTransit() {
		t.Errorf("%d are left", e.Chunk.Left())
	}
}

// TestTheLongestReservationFits: as many limits as a request can have, with the longest
// names that rules have, each character of them written in six bytes.
func TestTheLongestReservationFits(t *testing.T) {
	const longestPattern = 512
	name := strings.Repeat("<", rules.MaxNameChars)
	a := charge.Charge{Planned: charge.Planned{
		Rule: &rules.Rule{ID: name, Unit: name, Queue: true}, Override: strings.Repeat("<", longestPattern),
		Limit:  limit.Limit{Algorithm: limit.Concurrency, Capacity: limit.MaxTokens, Window: math.MaxInt64, Rate: limit.Rate{Micro: 1e15, Frac: 999_999}},
		Window: math.MaxInt64, Cost: limit.MaxTokens, Slot: limit.MaxExact, Key: budget.KeyID{Rule: math.MaxUint32},
	}}
	groups := []*charge.Transaction{{Charges: slices.Repeat([]charge.Charge{a}, lua.MaxLimits)}}
	for range lua.TakeChunk {
		groups = append(groups, &charge.Transaction{Shadow: true, Charges: []charge.Charge{a}})
	}
	text, err := json.Marshal(reservation{Fingerprint: name, Client: name, TTL: math.MaxInt64, Ends: math.MaxInt64}.describe(&charge.Decision{}, groups))
	if err != nil || len(text) > lua.MaxReservationBytes {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// TestSettleDoesNotShowTheStoresWords: a client hears that its reservation was not settled, and of what kind
// the failure is.
func TestSettleDoesNotShowTheStoresWords(t *testing.T) {
	var err error = &unsettled{errors.New("NOAUTH Authentication required by 10.1.2.3 for aq:{secret}")}
	if text := err.Error(); !errors.Is(err, ErrNotSettled) || strings.Contains(text, "10.1.2.3") || strings.Contains(text, "secret") || !strings.Contains(text, "noauth") {
		t.Errorf("%v", err)
	}
}

// TestAReservationOfWhichTheCallerHearsLate: the caller's patience ends, and before the request is decided without
// the store, the store's answer comes: it has made the reservation. The request is admitted on that, so the caller gets
// the id, by which it gives back what it took.
func TestAReservationOfWhichTheCallerHearsLate(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Engine, s *moodyStore) {
		l.unbatched = func(ctx context.Context, call func(context.Context) error) error {
			if err := call(ctx); err != nil {
				return err
			}
			return storeguard.ErrGivenUp
		}
		out, err := l.Reserve(t.Context(), &Reserving{Request: asked("k")[0], ID: "call-1", TTL: time.Minute})
		if !out.Decision.Groups[0].Allowed || !out.Made || out.Ends == 0 || err != nil {
			t.Errorf("allowed %t, reserved %t until %d, %v", out.Decision.Groups[0].Allowed, out.Made, out.Ends, err)
		}
		s.denies = true
		out, err = l.Reserve(t.Context(), &Reserving{Request: asked("other")[0], ID: "call-2", TTL: time.Minute})
		if out.Made || err != nil {
			t.Errorf("a reservation that the store denied: reserved %t, %v", out.Made, err)
		}
	})
}

// TestAPanicOfAReservationLeavesNothingUnderWay: what its call took along is given up, or the key's entry would be kept
// for good.
func TestAPanicOfAReservationLeavesNothingUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Engine, s *moodyStore) {
		e := busyKey(t, l)
		s.panics.Store(true)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			_, _ = l.Reserve(t.Context(), &Reserving{Request: asked("k")[0], ID: "call-1", TTL: time.Minute})
		}()
		<-time.After(prefetch.Life) // of the bubble's clock
		e.WhileLocked(func() {
			if !e.Chunk.Idle(l.Auth.Now()) {
				t.Error("the entry is kept for a call that has ended")
			}
		})
	})
}
