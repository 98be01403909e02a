package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/boottime"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/storeguard"
)

// hurriedStore makes each reservation, and tells when a call has come.
type hurriedStore struct {
	moodyStore
	came chan struct{}
}

func (s *hurriedStore) Reserve(_ context.Context, _ string, groups []lua.Group, _ lua.Reservation) (lua.Reserved, int64, error) {
	s.came <- struct{}{}
	limits := slices.Repeat([]limit.Outcome{{Tokens: 1000 * limit.Token}}, len(groups[0].Limits))
	return lua.Reserved{Results: []lua.Result{{Allowed: true, Limits: limits}}}, 1, nil
}

// TestTheFloorChangesWhileReservationsAreHeld: the callers of a thousand reservations give up their calls, and hold the
// reservations while the store makes them. Neither waits for the other, however often the floor changes meanwhile.
func TestTheFloorChangesWhileReservationsAreHeld(t *testing.T) {
	s := &hurriedStore{came: make(chan struct{})}
	l := limiterBefore(t, s, "e1", boottime.Now, strictRule(1_000_000, 1_000_000, ""))
	var calls sync.WaitGroup
	l.unbatched = func(ctx context.Context, call func(context.Context) error) error {
		calls.Go(func() { _ = call(ctx) })
		<-s.came
		return storeguard.ErrGivenUp
	}
	l.direct.held.mu.Lock()
	l.direct.held.add(&held{key: "another"})
	l.direct.held.mu.Unlock()
	reserved, changed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(changed)
		third := budget.Share{Rate: budget.Unit / 3, Burst: budget.Unit / 3}
		for {
			select {
			case <-reserved:
				return
			default:
				l.Auth.Adopt(budget.RulesReplaced{Rules: l.Policies.Load().State()}, 0, budget.Config{Regions: []budget.RegionConfig{{Told: third}}})
			}
		}
	}()
	go func() {
		defer close(reserved)
		for i := range 1000 {
			out, err := l.Reserve(context.Background(), &Reserving{Request: asked("k")[0], ID: fmt.Sprint("call-", i), TTL: time.Minute})
			if err != nil || !out.Made {
				t.Errorf("reserved %t, %v", out.Made, err)
			}
		}
		calls.Wait()
	}()
	for _, done := range []chan struct{}{reserved, changed} {
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatal("a reservation and a change of the floor wait for each other")
		}
	}
}
