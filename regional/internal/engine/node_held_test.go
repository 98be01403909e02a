package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/storeguard"
)

// heldStore is a Redis Cluster one of whose nodes is dead: all reservations but the one called "well" are there. It counts
// the reads of that one.
type heldStore struct {
	storeguard.Store
	reads atomic.Int64
}

func (s *heldStore) Apply(context.Context, string, []lua.Change) ([]limit.Applied, int64, error) {
	return nil, 1, nil
}

func (s *heldStore) Reserve(context.Context, string, []lua.Group, lua.Reservation) (lua.Reserved, int64, error) {
	return lua.Reserved{}, 0, errUnsent
}

func (s *heldStore) Reservation(_ context.Context, key string) (*lua.Kept, error) {
	if key != "well" {
		return nil, errUnsent
	}
	s.reads.Add(1)
	return nil, nil
}

// TestADeadNodeHoldsUpOnlyItsOwnSettlements: ten reservations of a dead node are held, and ten others are to be settled
// there. The settlement on another node is made at once.
func TestADeadNodeHoldsUpOnlyItsOwnSettlements(t *testing.T) {
	s := &heldStore{}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		now := func() budget.Instant { return budget.Instant(time.Hour) + budget.Instant(time.Since(began)) }
		l := limiterBefore(t, s, "e1", now, strictRule(10, 2, ""))
		due := func(key string) {
			l.direct.own.add(&ownReservation{key: key, over: now().Add(time.Minute)})
			if _, known := l.direct.own.setUsage(key, Usage{}); !known {
				t.Fatal("not known")
			}
		}
		due("well")
		for i := range 10 {
			l.direct.held.mu.Lock()
			l.direct.held.add(&held{key: string(rune('a' + i)), over: now().Add(time.Hour), since: l.emergency.Moment()})
			l.direct.held.mu.Unlock()
			due(string(rune('A' + i)))
		}
		l.handOverAll(t.Context())
		if s.reads.Load() != 1 || len(l.direct.own.byKey) != 10 || len(l.direct.held.byKey) != 10 {
			t.Errorf("%d tries of the settlement on the well node, want 1; %d of 10 settlements and %d of 10 reservations wait for the dead one",
				s.reads.Load(), len(l.direct.own.byKey), len(l.direct.held.byKey))
		}
		<-time.After(time.Minute) // of the bubble's clock: no call is under way any more
	})
}
