package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"aliquot/lua"
	"aliquot/regional/internal/charge/chargetest"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/storeguard"
)

// Reserve is Take, and tells the test what a call brought along of each key.
func (s *moodyStore) Reserve(ctx context.Context, epoch string, groups []lua.Group, _ lua.Reservation) (lua.Reserved, int64, error) {
	results, now, err := s.Take(ctx, epoch, groups)
	if err != nil {
		return lua.Reserved{}, 0, err
	}
	if len(groups) > 0 {
		s.brought = append(s.brought, groups[0].Limits[0].View.Chunk.Back)
	}
	if s.denies && s.relents {
		s.denies = false
	}
	return lua.Reserved{Results: results}, now, nil
}

// Reservation is silent, or knows none.
func (s *moodyStore) Reservation(ctx context.Context, _ string) (*lua.Kept, error) {
	_, _, err := s.Take(ctx, "", nil)
	return nil, err
}

// TestReservationsWaitForASilentStoreAsChecksDo: with the same patience, of which there is
// hardly any once the store is known to be silent.
func TestReservationsWaitForASilentStoreAsChecksDo(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Engine, s *moodyStore) {
		s.silent.Store(true)
		reservations := 0
		reserve := func() {
			reservations++
			in := Reserving{Request: asked("k")[0], ID: fmt.Sprint("call-", reservations), TTL: time.Minute}
			out, err := l.Reserve(t.Context(), &in)
			if _, v := out.Decision.Verdicts(); err != nil || !out.Made || v.Mode != modes.Emergency {
				t.Errorf("reserved %t by %s, %v", out.Made, v.Mode, err)
			}
		}
		settle := func() {
			if _, err := l.Settle(t.Context(), "", "call-1", Usage{}); !errors.Is(err, ErrNotSettled) {
				t.Errorf("settled: %v", err)
			}
		}
		for i, ask := range []func(){reserve, settle, reserve} {
			want := storeguard.CallerPatience
			if i > 0 {
				want = storeguard.SilentPatience
			}
			came := time.Now()
			if ask(); time.Since(came) != want {
				t.Errorf("call %d was answered after %v, want %v", i, time.Since(came), want)
			}
		}
		s.silent.Store(false)
		<-time.After(storeguard.Deadline) // of the bubble's clock: the calls that were given up are over
		l.settleDue(t.Context())          // what was kept for the store
		if _, err := l.Settle(t.Context(), "", "call-1", Usage{}); !errors.Is(err, ErrNoReservation) {
			t.Errorf("of a store that answers again: %v", err)
		}
	})
}

// TestAPanicOfACallIsItsCallers: a bug in a call that is waited for on another goroutine is
// one of its caller's, where it is recovered, and the next call is made.
func TestAPanicOfACallIsItsCallers(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Engine, _ *moodyStore) {
		func() {
			defer func() {
				if cause := recover(); !strings.Contains(fmt.Sprint(cause), "a bug") {
					t.Errorf("the caller heard of %v", cause)
				}
			}()
			t.Errorf("the call ended: %v", l.unbatched(t.Context(), func(context.Context) error { panic("a bug") }))
		}()
		if err := l.unbatched(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Errorf("the next call: %v", err)
		}
	})
}

// TestReservationWaitsForWhatIsOnItsWay: what another call brings here is had by a
// reservation that was denied for want of it, and no reservation waits for it twice.
func TestReservationWaitsForWhatIsOnItsWay(t *testing.T) {
	for _, relents := range []bool{true, false} {
		inBubble(t, func(t *testing.T, l *Engine, s *moodyStore) {
			e := busyKey(t, l)
			now := l.Auth.Now()
			call := chargetest.Asks(l.Auth.Local, e, now)
			s.denies, s.relents = true, relents
			const arrives = 5 * time.Millisecond
			time.AfterFunc(arrives, func() { chargetest.Brings(l.Auth.Local, call, now) })
			came := time.Now()
			out, err := l.Reserve(t.Context(), &Reserving{Request: asked("k")[0], ID: "call-1", TTL: time.Minute})
			if err != nil || out.Made != relents {
				t.Errorf("reserved %t, want %t, %v", out.Made, relents, err)
			}
			if took := time.Since(came); took != arrives+time.Millisecond { // the store decides in one
				t.Errorf("answered after %v", took)
			}
			if len(s.brought) != 2 || s.brought[0] != 0 || s.brought[1] == 0 {
				t.Errorf("the calls brought %v along", s.brought)
			}
		})
	}
}
