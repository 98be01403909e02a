package engine

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"

	"aliquot/budget"
	"aliquot/internal/prefetch"
	"aliquot/internal/storeclock"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/authority"
	"aliquot/regional/internal/background"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/emergency"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/policy"
	"aliquot/regional/internal/storeguard"
	"aliquot/regional/internal/telemetry"
)

// moodyStore has a thousand tokens of each key, lends none, and is silent or refuses at
// the test's word.
type moodyStore struct {
	storeguard.Store
	silent atomic.Bool
	panics atomic.Bool
	slow   atomic.Bool // it answers after the callers' patience, and before the calls' deadline
	denies bool
	// relents: of reservations it denies the first one only. brought is what they brought
	// back.
	relents bool
	brought []limit.Tokens
}

func (s *moodyStore) Take(ctx context.Context, _ string, groups []lua.Group) ([]lua.Result, int64, error) {
	if s.silent.Load() {
		<-ctx.Done()
		return nil, 0, ctx.Err()
	}
	<-time.After(time.Millisecond) // of the bubble's clock
	if s.slow.Load() {
		<-time.After(storeguard.CallerPatience) // of the bubble's clock
	}
	if s.panics.Load() {
		panic("a bug")
	}
	out := make([]lua.Result, len(groups))
	for i, g := range groups {
		out[i] = lua.Result{Allowed: !s.denies, Limits: make([]limit.Outcome, len(g.Limits))}
		for j := range out[i].Limits {
			if !s.denies {
				out[i].Limits[j] = limit.Outcome{Tokens: 1000 * limit.Token}
			}
		}
	}
	return out, 1, nil
}

// Apply tells the time of its clock, which stands still; shares are not applied.
func (s *moodyStore) Apply(ctx context.Context, _ string, _ []lua.Change) ([]limit.Applied, int64, error) {
	if s.silent.Load() {
		<-ctx.Done()
		return nil, 0, ctx.Err()
	}
	return nil, 1, nil
}

// inBubble is a limiter of one rule in virtual time, before a store that the test commands.
func inBubble(t *testing.T, test func(t *testing.T, l *Engine, s *moodyStore)) {
	inBubbleWith(t, &moodyStore{}, test)
}

// inBubbleWith is inBubble with a store of another kind.
func inBubbleWith[S storeguard.Store](t *testing.T, s S, test func(t *testing.T, l *Engine, s S)) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		now := func() budget.Instant { return budget.Instant(100*time.Second) + budget.Instant(time.Since(began)) }
		l := limiterBefore(t, s, "e1", now, strictRule(1_000_000, 1_000_000, ""))
		defer func() { <-time.After(time.Minute) }() // of the bubble's clock: no call is under way any more
		test(t, l, s)
	})
}

// limiterBefore is the limiter of a region with half of a rule r0, before a store with the
// given contents.
func limiterBefore(t *testing.T, s storeguard.Store, epoch string, now func() budget.Instant, yaml string) *Engine {
	log, m := slog.New(slog.DiscardHandler), telemetry.New("us", "test", prometheus.NewRegistry())
	auth := authority.New(budget.NewRegion(0, budget.Config{}, 1, now()), storeclock.New(), now)
	// Cut off from the others, so that keys may be lent by its store.
	half := budget.Share{Rate: budget.Unit / 2, Burst: budget.Unit / 2}
	auth.Configure(0, budget.Config{Regions: []budget.RegionConfig{{Floor: half, Told: half, Low: half}}}, epoch)
	auth.StoreEpoch(epoch)
	p := policy.New("us", false, now, log, m)
	p.SetCluster(policy.Cluster{Secret: []byte(secret)})
	if err := p.SetRules(policy.RuleText{Version: 1, YAML: yaml, Numbers: map[string]uint32{"r0": 1}}); err != nil {
		t.Fatal(err)
	}
	auth.Post(budget.RulesReplaced{Rules: p.Load().State()})
	e := emergency.New(now, auth.Clock, nil)
	guard := storeguard.New(storeguard.Config{Store: s, Observer: auth, Now: auth.Now, Metrics: m, Changed: func(bool, error) {}, Failed: func() {}})
	return New(Config{
		Policies: p, Auth: auth, Guard: guard, Emergency: e, Metrics: m, Log: log,
		Bugs: &background.Panics{Count: m.Panics, Log: log}, Slots: charge.NewSlotNames(1), Shared: true,
	})
}

// busyKey asks for a key until it is one of which checks wait for one another.
func busyKey(t *testing.T, l *Engine) *charge.Entry {
	t.Helper()
	var e *charge.Entry
	for range 10 {
		out, err := l.Decide(t.Context(), asked("k"))
		if err != nil {
			t.Fatal(err)
		}
		all, _ := out[0].Verdicts()
		e = l.Auth.Local.ByKey(all[0].Key)
	}
	if e == nil || !e.Shares || !e.Busy(l.Auth.Now()) {
		t.Fatal("no check would wait for another")
	}
	return e
}

// TestChecksOfABusyKeyWaitForASilentStoreOnce: of a store that falls silent a check hears
// within storeguard.CallerPatience, and hardly any more, also if it has waited for another check's
// call before its own, and until the breaker opens.
func TestChecksOfABusyKeyWaitForASilentStoreOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Engine, s *moodyStore) {
		busyKey(t, l)
		s.silent.Store(true)
		var all sync.WaitGroup
		for n := 0; l.direct.guard.Breaker.Calls.State() == gobreaker.StateClosed; n++ {
			came := time.Now()
			all.Go(func() {
				out, err := l.Decide(t.Context(), asked("k"))
				if took := time.Since(came); err != nil || took > storeguard.CallerPatience+storeguard.SilentPatience {
					t.Errorf("check %d had its answer after %v, %v", n, took, err)
				} else if _, v := out[0].Verdicts(); v.Mode != modes.Emergency {
					t.Errorf("check %d was decided by %s", n, v.Mode)
				}
			})
			<-time.After(3 * time.Millisecond) // of the bubble's clock
		}
		all.Wait()
	})
}

// TestAnAdmissionIsCountedOnce: a store that answers when its caller has gone has charged the key for
// nobody. What that caller got from memory is all that the watch over promises is told.
func TestAnAdmissionIsCountedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Engine, s *moodyStore) {
		check := func() (v *charge.Verdict) {
			out, err := l.Decide(t.Context(), asked("k"))
			if err != nil {
				t.Fatal(err)
			}
			_, v = out[0].Verdicts()
			return v
		}
		key := check()
		s.slow.Store(true)
		if v := check(); v.Mode != modes.Emergency || !v.Decision.Allowed {
			t.Fatalf("a caller that left: %+v", v)
		}
		<-time.After(storeguard.Deadline) // of the bubble's clock: the store has answered
		told := l.Auth.ReportUnreported([]budget.KeyReport{{Key: key.Key, Gen: budget.Gen{Epoch: 1}, Limit: (&charge.Charge{Planned: charge.Planned{Rule: key.Rule, Limit: key.Limit}}).KeyLimit()}})
		if len(told) != 1 || told[0].Admitted != 2*int64(limit.Token) {
			t.Errorf("told %+v of two admissions", told)
		}
	})
}

// TestChecksWaitForOneAnotherAgain once the store answers.
func TestChecksWaitForOneAnotherAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Engine, s *moodyStore) {
		e := busyKey(t, l)
		s.silent.Store(true)
		if _, err := l.Decide(t.Context(), asked("k")); err != nil || !unanswered(e) {
			t.Fatalf("%v, stalled is %t after a check that was given up", err, unanswered(e))
		}
		s.silent.Store(false)
		<-time.After(storeguard.Deadline) // of the bubble's clock
		if _, err := l.Decide(t.Context(), asked("k")); err != nil || unanswered(e) {
			t.Errorf("%v, stalled is %t after an answer", err, unanswered(e))
		}
	})
}

// TestAllWaitingOfARequestIsBounded: a check that has waited for another's call before its
// own does not wait for what it was denied for want of, as one that came straight to the
// store does; neither waits longer than storeguard.CallerPatience.
func TestAllWaitingOfARequestIsBounded(t *testing.T) {
	for _, claimed := range []bool{false, true} {
		inBubble(t, func(t *testing.T, l *Engine, s *moodyStore) {
			e := busyKey(t, l)
			e.WhileLocked(func() {
				e.Chunk.Checkout(limit.Token, prefetch.Terms{Lends: true}, l.Auth.Now()) // on its way for ever
				e.InFlight, e.Shares = claimed, claimed
			})
			s.denies = true
			came := time.Now()
			out, err := l.Decide(t.Context(), asked("k"))
			want := storeguard.CallerPatience + time.Millisecond // it denies in one
			if took := time.Since(came); err != nil || out[0].Groups[0].Allowed || took != want {
				t.Errorf("claimed %t: %v, %v, want %v", claimed, err, took, want)
			}
		})
	}
}

// TestPanicLeavesNoClaim: checks of a key do not wait for one whose call has panicked.
func TestPanicLeavesNoClaim(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Engine, _ *moodyStore) {
		e, ask := busyKey(t, l), l.Send
		l.Send = func(context.Context, []*charge.Transaction) error { panic("a bug") }
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			l.Decide(t.Context(), asked("k"))
		}()
		l.Send = ask
		if e.InFlight {
			t.Error("the key is claimed still")
		}
	})
}

// TestAPanicLeavesNothingUnderWay: what a call took along that panicked is given up, or all
// later checks of the key would wait for it, and its entry would be kept for good.
func TestAPanicLeavesNothingUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Engine, s *moodyStore) {
		told := 0
		b := &storeguard.Batcher{Send: l.direct.decide, Refused: func(error) {}, Caught: func(any) { told++ }}
		l.Send = b.Decide
		e := busyKey(t, l)
		s.panics.Store(true)
		out, err := l.Decide(t.Context(), asked("k"))
		if err != nil || told != 1 {
			t.Fatalf("%v, %d panics are told of", err, told)
		}
		if _, v := out[0].Verdicts(); v.Mode != modes.Emergency {
			t.Errorf("decided by %s", v.Mode)
		}
		if e.PendingTokens() != nil {
			t.Error("checks wait for what the call took along")
		}
		s.panics.Store(false)
		<-time.After(prefetch.Life) // of the bubble's clock
		e.WhileLocked(func() {
			if !e.Chunk.Idle(l.Auth.Now()) {
				t.Error("the entry is kept for a call that has ended")
			}
		})
	})
}

// unanswered reports whether the latest call of an entry's key has brought no answer.
func unanswered(e *charge.Entry) (stalled bool) {
	e.WhileLocked(func() { stalled = e.Stalled })
	return stalled
}
