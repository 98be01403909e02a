package engine

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/storeguard"
)

// debtStore is a moodyStore whose calls take a while, and which counts the debts that it takes off.
type debtStore struct {
	moodyStore
	takes time.Duration
	mu    sync.Mutex
	took  []limit.Tokens
}

func (s *debtStore) Take(ctx context.Context, epoch string, groups []lua.Group) ([]lua.Result, int64, error) {
	out, now, err := s.moodyStore.Take(ctx, epoch, groups)
	if err != nil {
		return nil, 0, err
	}
	<-time.After(s.takes) // of the bubble's clock
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range groups {
		for _, v := range g.Limits {
			if v.View.Debit > 0 {
				s.took = append(s.took, v.View.Debit)
			}
		}
	}
	return out, now, nil
}

// TestWhatIsOwedIsTakenOnce: when the store is back, checks of a client that owes something wait for their turn in
// several calls. One of these calls carries what is owed.
func TestWhatIsOwedIsTakenOnce(t *testing.T) {
	inBubbleWith(t, &debtStore{}, func(t *testing.T, l *Engine, s *debtStore) {
		var without atomic.Int64 // what passed without the store, in tokens
		many := func(apiKey string, n int) {
			out, err := l.Decide(t.Context(), slices.Repeat(asked(apiKey), n))
			if err != nil {
				t.Error(err)
			}
			for i := range out {
				if _, v := out[i].Verdicts(); !v.Decision.Allowed {
					t.Errorf("denied: %+v", v)
				} else if v.Mode == modes.Emergency {
					without.Add(1)
				}
			}
		}
		many("k", 1)
		s.silent.Store(true)
		if many("k", 7); without.Load() != 7 {
			t.Fatalf("%d of 7 passed without the store", without.Load())
		}
		<-time.After(time.Second) // of the bubble's clock: that call is over
		s.silent.Store(false)
		s.takes = 10 * time.Millisecond
		var all sync.WaitGroup
		for _, other := range []string{"a", "b", "c", "d"} { // as many calls as there may be at once
			all.Go(func() { many(other, 1) })
		}
		<-time.After(time.Millisecond) // of the bubble's clock
		const most = storeguard.GroupsPerCall * 2 / 3
		for range 3 {
			all.Go(func() { many("k", most) })
		}
		all.Wait()
		many("k", 1) // its call carries what the other ones were too late for
		took := limit.Tokens(0)
		for _, debit := range s.took {
			took += debit
		}
		if want := limit.Tokens(without.Load()) * limit.Token; took != want {
			t.Errorf("of %d tokens that were owed the store's calls took %v", without.Load(), s.took)
		}
	})
}
