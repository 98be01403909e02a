package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"aliquot/lua"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/overload"
	"aliquot/regional/internal/storeguard"
)

// busyStore is a moodyStore whose calls take a while. It counts those that it takes beside each other.
type busyStore struct {
	moodyStore
	takes        time.Duration
	still, again time.Time    // it begins no call in between
	full         atomic.Int64 // calls of storeguard.GroupsPerCall groups under way
	most, calls  atomic.Int64 // of those at once, and in all
}

func (s *busyStore) Take(ctx context.Context, epoch string, groups []lua.Group) ([]lua.Result, int64, error) {
	if len(groups) == storeguard.GroupsPerCall {
		s.calls.Add(1)
		now := s.full.Add(1)
		defer s.full.Add(-1)
		for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
		}
	}
	takes := s.takes
	if time.Now().After(s.still) {
		takes = max(takes, time.Until(s.again))
	}
	<-time.After(takes) // of the bubble's clock
	return s.moodyStore.Take(ctx, epoch, groups)
}

// doorOf puts a door before an engine, as a daemon's services have one.
func doorOf(l *Engine) *overload.Door {
	door := overload.NewDoor(2, prometheus.NewCounter(prometheus.CounterOpts{Name: "refused"}))
	l.turns = door
	return door
}

// call decides a call of n new keys of a client, and returns how many the store has decided.
func call(ctx context.Context, l *Engine, door *overload.Door, client string, n int) (byStore int, err error) {
	var requests []charge.Request
	for i := range n {
		requests = append(requests, asked(fmt.Sprint(client, i))...)
	}
	s := &charge.Scratch{}
	if s.Turns, s.Part, err = door.EnterCall(ctx, n); err != nil {
		return 0, err
	}
	defer func() { door.LeaveCall(s.Turns, s.Part) }()
	out, err := l.DecideIn(ctx, requests, s)
	for i := range out {
		if _, v := out[i].Verdicts(); v.Mode == modes.Store && v.Decision.Allowed {
			byStore++
		}
	}
	return byStore, err
}

// noTurnTaken sees that all turns were given back.
func noTurnTaken(t *testing.T, door *overload.Door) {
	t.Helper()
	if requests, large := door.Deciding(); requests != 0 || large != 0 {
		t.Errorf("the turns of %d requests and %d of large calls are taken in the end", requests, large)
	}
}

// TestChecksBesideLargeCalls of keys that are new are no overload, although the store needs 16 ms for a call. One check of
// other clients each millisecond has one of the store's calls meanwhile. It waits for the one before it at most, and for
// the spacing of calls.
func TestChecksBesideLargeCalls(t *testing.T) {
	for name, c := range map[string]struct{ callers, requests, calls int }{
		"8 callers of 256": {callers: 8, requests: 256, calls: 4},
		"12 callers of 64": {callers: 12, requests: 64, calls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, &busyStore{takes: 15 * time.Millisecond}, func(t *testing.T, l *Engine, s *busyStore) {
				door := doorOf(l)
				var all sync.WaitGroup
				for caller := range c.callers {
					all.Go(func() {
						if n, err := call(t.Context(), l, door, fmt.Sprint("caller", caller, "-"), c.requests); n != c.requests || err != nil {
							t.Errorf("the store has decided %d of %d: %v", n, c.requests, err)
						}
					})
				}
				for check := range 60 {
					<-time.After(time.Millisecond) // of the bubble's clock
					all.Go(func() {
						came := time.Now()
						n, err := call(t.Context(), l, door, fmt.Sprint("check", check, "-"), 1)
						if took := time.Since(came); n != 1 || err != nil || took > 33*time.Millisecond {
							t.Errorf("a check beside large calls: %d by the store after %v: %v", n, took, err)
						}
					})
				}
				all.Wait()
				if calls, most := s.calls.Load(), s.most.Load(); calls != int64(c.callers*c.calls) || most != storeguard.BatchCalls-1 {
					t.Errorf("%d full calls of the store, %d at once", calls, most)
				}
				noTurnTaken(t, door)
			})
		})
	}
}

// TestSixteenCallersOf64 are as many as the daemon decides at once and three times more, which wait for
// their turns. When the store is still for a while, the first ones wait for it as long as they may, and
// nobody is turned away.
func TestSixteenCallersOf64(t *testing.T) {
	inBubbleWith(t, &busyStore{takes: 5 * time.Millisecond}, func(t *testing.T, l *Engine, s *busyStore) {
		door := doorOf(l)
		began := time.Now()
		s.still, s.again = began.Add(50*time.Millisecond), began.Add(150*time.Millisecond)
		var all sync.WaitGroup
		for caller := range 16 {
			all.Go(func() {
				for n := 0; time.Since(began) < 250*time.Millisecond; n++ {
					if _, err := call(t.Context(), l, door, fmt.Sprint("caller", caller, "-", n, "-"), 64); err != nil {
						t.Errorf("after %v: %v", time.Since(began), err)
						return
					}
				}
			})
		}
		all.Wait()
		noTurnTaken(t, door)
	})
}

// TestPartsOfLargeCallsTakeTurns: a call of five parts does not wait for the end of those of 16 that came before it.
func TestPartsOfLargeCallsTakeTurns(t *testing.T) {
	inBubbleWith(t, &busyStore{takes: 9 * time.Millisecond}, func(t *testing.T, l *Engine, _ *busyStore) {
		door := doorOf(l)
		began := time.Now()
		var all sync.WaitGroup
		var first atomic.Bool
		for caller := range 5 {
			all.Go(func() {
				if n, err := call(t.Context(), l, door, fmt.Sprint("large", caller, "-"), 1000); n != 1000 || err != nil {
					t.Errorf("the store has decided %d of 1,000: %v", n, err)
				}
				first.Store(true)
			})
		}
		<-time.After(time.Millisecond) // of the bubble's clock
		if n, err := call(t.Context(), l, door, "smaller", 300); n != 300 || err != nil || first.Load() {
			t.Errorf("the store has decided %d of 300: %v; a larger call came before it: %t", n, err, first.Load())
		}
		// Before each part, the five others take one turn each at most. Four calls of the store are under way, so each part
		// waits for the end of one. The last one fills no call of the store, so it waits a millisecond for others.
		const one = 10 * time.Millisecond
		if took := time.Since(began); took > 5*2*one+2*time.Millisecond {
			t.Errorf("5 parts beside 5 other callers took %v", took)
		}
		all.Wait()
		noTurnTaken(t, door)
	})
}

// TestALargeCallThatIsGone while it waits for its next part leaves no turn behind.
func TestALargeCallThatIsGone(t *testing.T) {
	inBubbleWith(t, &busyStore{takes: 9 * time.Millisecond}, func(t *testing.T, l *Engine, s *busyStore) {
		door := doorOf(l)
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Millisecond) // in its second call of the store
		defer cancel()
		if _, err := call(ctx, l, door, "k", 1000); !errors.Is(err, charge.ErrGone) {
			t.Errorf("a caller that is gone: %v", err)
		}
		if n := s.calls.Load(); n != 2*(storeguard.BatchCalls-1) {
			t.Errorf("%d calls of the store for a caller that is gone", n)
		}
		noTurnTaken(t, door)
	})
}
