package engine

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/storeguard"
	"aliquot/regional/store"
)

// errUnsent is the failure of a node that the call did not reach.
var errUnsent = &store.NodeError{Node: "n1:6379", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}

// nodeStore is a Redis Cluster that has one full bucket of 5, and whose node gets no calls at the test's word.
type nodeStore struct {
	storeguard.Store
	down atomic.Bool
}

func (s *nodeStore) Take(_ context.Context, _ string, groups []lua.Group) ([]lua.Result, int64, error) {
	if s.down.Load() {
		return nil, 0, errUnsent
	}
	<-time.After(time.Millisecond) // of the bubble's clock
	out := make([]lua.Result, len(groups))
	for i := range groups {
		full := limit.Bucket{Cap: 5 * limit.Token, Rate: limit.Rate{Micro: int64(limit.Token)}}
		out[i] = lua.Result{Allowed: true, Limits: []limit.Outcome{{Tokens: full.Cap, Bucket: full}}}
	}
	return out, 1, nil
}

func (s *nodeStore) Apply(context.Context, string, []lua.Change) ([]limit.Applied, int64, error) {
	return nil, 1, nil
}

// TestRefusalsDuringANodesOutageCostNothing: a node gets no calls, because it does not answer. The client asks more than
// its limit of 5 and 1 a second allows, and the rest is refused: in a minute 58 fit, by a clock that may be 2 % slow. Then
// it asks less, which is all admitted.
func TestRefusalsDuringANodesOutageCostNothing(t *testing.T) {
	for _, burst := range []int{5, 6, 50} {
		s := &nodeStore{}
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			now := func() budget.Instant { return budget.Instant(time.Hour) + budget.Instant(time.Since(began)) }
			l := limiterBefore(t, s, "e1", now, strictRule(10, 2, ""))
			var admitted atomic.Int64
			check := func() {
				out, err := l.Decide(t.Context(), asked("k"))
				if err != nil {
					t.Fatal(err)
				}
				if _, v := out[0].Verdicts(); v.Decision.Allowed {
					admitted.Add(1)
				}
			}
			many := func(n, want int64, each func()) {
				t.Helper()
				admitted.Store(0)
				for range n {
					each()
				}
				if got := admitted.Load(); got != want {
					t.Errorf("burst of %d: of %d then %d are admitted, want %d", burst, n, got, want)
				}
			}
			check()
			<-time.After(10 * time.Second) // of the bubble's clock
			s.down.Store(true)
			var all sync.WaitGroup
			for range burst {
				all.Go(check)
			}
			if all.Wait(); admitted.Load() != 1+5 {
				t.Errorf("of a burst of %d %d are admitted, want 5", burst, admitted.Load()-1)
			}
			many(120, 58, func() { <-time.After(500 * time.Millisecond); check() }) // of the bubble's clock
			many(360, 360, func() { <-time.After(10 * time.Second); check() })      // of the bubble's clock
			<-time.After(time.Minute)                                               // of the bubble's clock: no call is under way any more
		})
	}
}
