package session

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/storeguard"
	"aliquot/regional/store/memory"
)

// silentChanges is a store that answers no change of a share, and remembers the change's deadline.
type silentChanges struct {
	storeguard.Store
	silent   atomic.Bool
	mute     atomic.Bool // it does not even tell its clock
	deadline atomic.Int64
}

// ApplyLease makes no change while the store is silent.
func (s *silentChanges) ApplyLease(ctx context.Context, epoch string, changes []lua.Change) ([]limit.Applied, int64, error) {
	if s.mute.Load() && len(changes) == 0 {
		return nil, 0, errors.New("no answer")
	}
	if s.silent.Load() && len(changes) > 0 {
		s.deadline.Store(changes[0].Deadline)
		return nil, 0, errors.New("no answer")
	}
	return s.Store.ApplyLease(ctx, epoch, changes)
}

// unlearned is a store that has lost its contents, and whose new ones cannot be learned yet.
type unlearned struct {
	storeguard.Store
	lost atomic.Bool
	sent atomic.Int32
	// asked is called with each question for the contents.
	asked func()
}

// Epoch fails while the contents cannot be learned.
func (s *unlearned) Epoch(ctx context.Context) (string, error) {
	s.asked()
	if s.lost.Load() {
		return "", context.DeadlineExceeded
	}
	return s.Store.Epoch(ctx)
}

// ApplyLease counts the calls with changes. It makes none while the contents are lost.
func (s *unlearned) ApplyLease(ctx context.Context, epoch string, changes []lua.Change) ([]limit.Applied, int64, error) {
	if len(changes) > 0 {
		s.sent.Add(1)
	}
	if s.lost.Load() {
		return nil, 0, &lua.EpochError{}
	}
	return s.Store.ApplyLease(ctx, epoch, changes)
}

// inStore runs a test in a bubble, on a session whose store is in memory and is known, and which
// has rules.
func inStore(t *testing.T, test func(t *testing.T, s *Session, store *silentChanges)) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		now := func() budget.Instant { return 1000*second + budget.Instant(time.Since(began)) }
		kept, err := memory.New(memory.Config{Clock: func() int64 { return int64(now()) / 1000 }})
		if err != nil {
			t.Fatal(err)
		}
		store := &silentChanges{Store: kept}
		s := newSession(&lastHello{}, store, now, t.Output())
		s.setRules(t, oneRule, "r0")
		if err := s.store.Learn(t.Context()); err != nil {
			t.Fatal(err)
		}
		test(t, s, store)
	})
}

// change is one of a key's share.
func change() []budget.ShareChange {
	return []budget.ShareChange{{
		Key: budget.KeyID{Rule: 1}, Limit: budget.KeyLimit{Capacity: 100e6, Rate: 10e6},
		Gen: budget.Gen{Epoch: 1, Counter: 1}, Share: budget.Share{Rate: 1, Burst: 1},
	}}
}

// TestChangesAreAppliedInAStoreWhoseClockIsNotKnownYet: a store that has come back with other
// contents has another clock, which nobody has read yet when the next session begins. No session
// ends for that.
func TestChangesAreAppliedInAStoreWhoseClockIsNotKnownYet(t *testing.T) {
	inStore(t, func(t *testing.T, s *Session, _ *silentChanges) {
		s.auth.Clock.Reset()
		if out := s.apply(t.Context(), change()); len(out) != 1 || out[0].Failed {
			t.Errorf("the change was not applied: %+v", out)
		}
	})
}

// TestAWindowsNumberComesWithItsTail: two limits' windows have other numbers at the same time.
func TestAWindowsNumberComesWithItsTail(t *testing.T) {
	inStore(t, func(t *testing.T, s *Session, _ *silentChanges) {
		s.setRules(t, "rules:\n  - id: r0\n    algorithm: fixed_window\n    key: [api_key]\n    params: {limit: 100, window: 60}\n", "r0")
		for _, c := range []struct {
			limit budget.KeyLimit // {}: the rule's
			label int64
			tail  time.Duration
		}{
			{budget.KeyLimit{}, 17, 2 * time.Minute},
			{budget.KeyLimit{Capacity: 100e6, Rate: 333_333, RateFrac: 333_333, Tail: 10 * time.Minute, Algorithm: 3}, 4, 10 * time.Minute},
		} {
			asked := change()
			asked[0].Limit = c.limit
			if out := s.apply(t.Context(), asked); len(out) != 1 || out[0].Failed || out[0].Label != c.label || out[0].Tail != c.tail {
				t.Errorf("%+v, want window %d of a tail of %v", out, c.label, c.tail)
			}
		}
	})
}

// TestNoChangeIsSentToASilentStore: a store that does not answer checks gets no change of a share, which would leave it
// unknown what the key holds. The change fails no sooner than one without an answer.
func TestNoChangeIsSentToASilentStore(t *testing.T) {
	inStore(t, func(t *testing.T, s *Session, store *silentChanges) {
		store.silent.Store(true)
		s.store.(*storeguard.Guard).Breaker.Open.Store(true)
		began := time.Now()
		out := s.apply(t.Context(), change())
		if len(out) != 1 || !out[0].Failed || time.Since(began) != storeguard.ApplyDeadline {
			t.Errorf("%+v after %v", out, time.Since(began))
		}
		if store.deadline.Load() != 0 {
			t.Error("it was sent")
		}
	})
}

// TestASilentStoreIsLoggedNowAndThen: each Hello brings shares, about once a second, for as long as the store is silent.
func TestASilentStoreIsLoggedNowAndThen(t *testing.T) {
	inStore(t, func(t *testing.T, s *Session, store *silentChanges) {
		var log bytes.Buffer
		s.log = slog.New(slog.NewTextHandler(&log, nil))
		s.store.(*storeguard.Guard).Breaker.Open.Store(true)
		for range 20 {
			s.apply(t.Context(), change())
		}
		if lines := strings.Count(log.String(), "\n"); lines != 1 {
			t.Errorf("%d lines in 20 s:\n%s", lines, log.String())
		}
	})
}

// TestNoChangeIsSentToContentsThatAreKnownToBeLost: such a change would not be made, and it would not be known any more
// what the key held. A Redis Cluster takes seconds to learn.
func TestNoChangeIsSentToContentsThatAreKnownToBeLost(t *testing.T) {
	inStore(t, func(t *testing.T, s *Session, store *silentChanges) {
		lost := &unlearned{Store: store.Store, asked: func() {
			if !s.store.Doubted() {
				t.Error("while one call asks for the contents, others may go on by the earlier ones")
			}
		}}
		store.Store = lost
		if out := s.apply(t.Context(), change()); len(out) != 1 || out[0].Failed {
			t.Fatalf("%+v", out)
		}
		lost.lost.Store(true)
		for range 3 {
			if out := s.apply(t.Context(), change()); len(out) != 1 || !out[0].Failed {
				t.Errorf("%+v", out)
			}
		}
		if sent := lost.sent.Load() - 1; sent != 1 {
			t.Errorf("%d were sent, of which the first one found that the contents are lost", sent)
		}
		lost.lost.Store(false)
		next := change()
		next[0].Gen.Counter++
		if out := s.apply(t.Context(), next); len(out) != 1 || out[0].Failed {
			t.Errorf("the contents are known: %+v", out)
		}
	})
}

// TestAChangeThatIsNotSentForgetsNothing: the clock of a store with other contents cannot be read, so no change is sent.
// What is known of the key stays known.
func TestAChangeThatIsNotSentForgetsNothing(t *testing.T) {
	inStore(t, func(t *testing.T, s *Session, store *silentChanges) {
		<-time.After(time.Minute) // of the bubble's clock: an untouched bucket is full
		store.silent.Store(true)
		store.mute.Store(true)
		s.auth.Clock.Reset()
		began := time.Now()
		out := s.apply(t.Context(), change())
		if len(out) != 1 || !out[0].Failed || time.Since(began) != storeguard.ApplyDeadline || store.deadline.Load() != 0 {
			t.Fatalf("%+v after %v, sent: %t", out, time.Since(began), store.deadline.Load() != 0)
		}
		half := budget.Share{Rate: budget.Unit / 2, Burst: budget.Unit / 2}
		a := charge.Charge{
			Planned: charge.Planned{
				Key: change()[0].Key, Limit: limit.Limit{Capacity: 100 * limit.Token, Rate: limit.Rate{Micro: 10 * int64(limit.Token)}},
				Cost: 50 * limit.Token,
			},
			Right: budget.Right{Floor: half, Phase: budget.CutOff},
		}
		if !s.emergency.Take([]*charge.Charge{&a}, false, s.auth.CurrentEpoch(), make([]limit.Outcome, 1)) {
			t.Error("a client far below its limit is refused")
		}
	})
}

// TestAChangeWithoutAnAnswerFailsOnceItCanNoLongerBeMade: the leader gives away again what a failed change would have
// raised, so it must not hear of the failure while the change may still be on its way to the store.
func TestAChangeWithoutAnAnswerFailsOnceItCanNoLongerBeMade(t *testing.T) {
	inStore(t, func(t *testing.T, s *Session, store *silentChanges) {
		store.silent.Store(true)
		out := s.apply(t.Context(), change())
		if len(out) != 1 || !out[0].Failed {
			t.Fatalf("the change did not fail: %+v", out)
		}
		now := s.auth.Clock.Until(s.auth.Now())
		if deadline := store.deadline.Load(); deadline == 0 || now < deadline {
			t.Errorf("the leader hears of it at %d by the store's clock, and the store makes the change until %d", now, deadline)
		}
	})
}

// TestShareOfAnUnknownLimit is not acknowledged: the region has no record to apply it to.
func TestShareOfAnUnknownLimit(t *testing.T) {
	for _, k := range []budget.KeyLimit{{}, {Capacity: 40e6, Rate: 10e6}, {Algorithm: 1}} {
		if got := unknownLimit(budget.ShareChange{Limit: k}); !got.Unenforced || got.Failed {
			t.Errorf("%+v: %+v", k, got)
		}
	}
	if got := unknownLimit(budget.ShareChange{Cold: true}); got.Unenforced {
		t.Error("a return to cold, which needs nothing of the store, is not acknowledged")
	}
}
