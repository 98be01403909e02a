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
	"aliquot/regional/internal/background"
	"aliquot/regional/internal/charge"
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

// renewedStore is a debtStore that may have other contents: the next call finds that out once its caller has gone.
type renewedStore struct {
	debtStore
	contents atomic.Pointer[string]
	charged  atomic.Int64 // calls' costs and debts
}

func (s *renewedStore) Epoch(context.Context) (string, error) { return *s.contents.Load(), nil }

func (s *renewedStore) Take(ctx context.Context, epoch string, groups []lua.Group) ([]lua.Result, int64, error) {
	if epoch != *s.contents.Load() {
		<-time.After(storeguard.CallerPatience * 3 / 2) // of the bubble's clock
		return nil, 0, &lua.EpochError{Actual: *s.contents.Load()}
	}
	out, now, err := s.debtStore.Take(ctx, epoch, groups)
	for _, g := range groups {
		s.charged.Add(int64(g.Cost))
		for _, v := range g.Limits {
			s.charged.Add(int64(v.View.Debit))
		}
	}
	return out, now, err
}

func (s *renewedStore) Reserve(ctx context.Context, epoch string, groups []lua.Group, _ lua.Reservation) (lua.Reserved, int64, error) {
	results, now, err := s.Take(ctx, epoch, groups)
	return lua.Reserved{Results: results}, now, err
}

// TestACallThatIsMadeOnceMoreChargesNobodyTwice: a caller gives up a call, and memory decides. The call finds other
// contents, and is made once more for them: for those who still wait for it.
func TestACallThatIsMadeOnceMoreChargesNobodyTwice(t *testing.T) {
	for name, ask := range map[string]func(t *testing.T, l *Engine) charge.Decision{
		"check": func(t *testing.T, l *Engine) charge.Decision {
			out, err := l.Decide(t.Context(), asked("k"))
			if err != nil {
				t.Fatal(err)
			}
			return out[0]
		},
		"reservation": func(t *testing.T, l *Engine) charge.Decision {
			out, err := l.Reserve(t.Context(), &Reserving{Request: asked("k")[0], ID: "call", TTL: time.Minute})
			if err != nil || !out.Made {
				t.Fatalf("made: %t, %v", out.Made, err)
			}
			return *out.Decision
		},
	} {
		first, second := "e1", "e2"
		s := &renewedStore{}
		s.contents.Store(&first)
		inBubbleWith(t, s, func(t *testing.T, l *Engine, s *renewedStore) {
			check := func(by string, ask func(t *testing.T, l *Engine) charge.Decision) {
				d := ask(t, l)
				if _, v := d.Verdicts(); !v.Decision.Allowed || v.Mode != by {
					t.Fatalf("%s: %+v, want it admitted by %s", name, v, by)
				}
			}
			decide := func(t *testing.T, l *Engine) charge.Decision {
				out, err := l.Decide(t.Context(), asked("k"))
				if err != nil {
					t.Fatal(err)
				}
				return out[0]
			}
			check(modes.Store, decide)
			s.contents.Store(&second)
			check(modes.Emergency, ask)
			<-time.After(time.Second) // of the bubble's clock: the call is over
			check(modes.Store, decide)
			if got := limit.Tokens(s.charged.Load()); got != 3*limit.Token {
				t.Errorf("%s: 3 tokens passed, and the store has charged %v", name, got)
			}
		})
	}
}

// TestAPanicSettlesWhatItsCallCarried: a bug ends a call that carries what a client owes. It is unknown what the store has
// taken. The next call carries it, and the client is decided by the store again.
func TestAPanicSettlesWhatItsCallCarried(t *testing.T) {
	for name, ask := range map[string]func(t *testing.T, l *Engine) error{
		"check": func(t *testing.T, l *Engine) error {
			_, err := l.Decide(t.Context(), asked("k"))
			return err
		},
		"reservation": func(t *testing.T, l *Engine) error {
			return background.Catch(func() error {
				_, err := l.Reserve(t.Context(), &Reserving{Request: asked("k")[0], ID: "call", TTL: time.Minute})
				return err
			})
		},
	} {
		inBubbleWith(t, &debtStore{}, func(t *testing.T, l *Engine, s *debtStore) {
			check := func() string {
				out, err := l.Decide(t.Context(), asked("k"))
				if err != nil {
					t.Fatal(err)
				}
				_, v := out[0].Verdicts()
				return v.Mode
			}
			check()
			s.silent.Store(true)
			check()
			<-time.After(time.Second) // of the bubble's clock: the call is over
			s.silent.Store(false)
			s.panics.Store(true)
			_ = ask(t, l)
			s.panics.Store(false)
			<-time.After(time.Second) // of the bubble's clock
			if by := check(); by != modes.Store || len(s.took) != 1 {
				t.Errorf("%s: decided by %s, and the store took %v", name, by, s.took)
			}
		})
	}
}

// Reserve is Take.
func (s *debtStore) Reserve(ctx context.Context, epoch string, groups []lua.Group, _ lua.Reservation) (lua.Reserved, int64, error) {
	results, now, err := s.Take(ctx, epoch, groups)
	return lua.Reserved{Results: results}, now, err
}

// TestWhatIsOwedIsTakenOnceBesideACheck: a reservation, or a look at a limit, that comes while a check's call carries what
// is owed does not carry it as well.
func TestWhatIsOwedIsTakenOnceBesideACheck(t *testing.T) {
	for name, call := range map[string]func(t *testing.T, l *Engine) error{
		"reservation": func(t *testing.T, l *Engine) error {
			_, err := l.Reserve(t.Context(), &Reserving{Request: asked("k")[0], ID: "call-1", TTL: time.Minute})
			return err
		},
		"peek": func(t *testing.T, l *Engine) error {
			_, err := l.Peek(t.Context(), l.Policies.Load(), &asked("k")[0])
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, &debtStore{}, func(t *testing.T, l *Engine, s *debtStore) {
				owes(t, l, s, 7)
				s.takes = 10 * time.Millisecond
				var all sync.WaitGroup
				all.Go(func() { passes(t, l, 1) })
				<-time.After(time.Millisecond) // of the bubble's clock
				if err := call(t, l); err != nil {
					t.Error(err)
				}
				all.Wait()
				if !slices.Equal(s.took, []limit.Tokens{7 * limit.Token}) {
					t.Errorf("of 7 tokens that were owed the store's calls took %v", s.took)
				}
			})
		})
	}
}

// passes lets n checks of the client k pass.
func passes(t *testing.T, l *Engine, n int) (last *charge.Verdict) {
	t.Helper()
	out, err := l.Decide(t.Context(), slices.Repeat(asked("k"), n))
	if err != nil {
		t.Fatal(err)
	}
	for i := range out {
		if _, last = out[i].Verdicts(); !last.Decision.Allowed {
			t.Errorf("denied: %+v", last)
		}
	}
	return last
}

// owes has the client k owe n tokens to a store that answers again.
func owes(t *testing.T, l *Engine, s *debtStore, n int) (last *charge.Verdict) {
	t.Helper()
	passes(t, l, 1)
	s.silent.Store(true)
	last = passes(t, l, n)
	<-time.After(time.Second) // of the bubble's clock: that call is over
	s.silent.Store(false)
	return last
}

// TestADebtIsTakenAfterAPanic: a call that panics, and carries what a key owes, does not carry it for ever.
func TestADebtIsTakenAfterAPanic(t *testing.T) {
	for name, call := range map[string]func(l *Engine, parts *charge.Transaction) error{
		"settle": func(l *Engine, parts *charge.Transaction) error {
			end := lua.Settlement{Was: &lua.Kept{Stamp: limit.Stamp(l.Auth.CurrentEpoch())}}
			_, err := l.direct.settle(context.Background(), parts, []limit.Tokens{0}, []chargedAt{{}}, end)
			return err
		},
		"overrun": func(l *Engine, parts *charge.Transaction) error {
			_, err := l.direct.overrun(context.Background(), parts, []limit.Tokens{0})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, &debtStore{}, func(t *testing.T, l *Engine, s *debtStore) { // it panics where something is settled
				v := owes(t, l, s, 7)
				parts := &charge.Transaction{Charges: []charge.Charge{{Planned: charge.Planned{Rule: v.Rule, Limit: v.Limit, Window: v.Window, Enforcement: v.Rule.Enforcement, Key: v.Key}}}}
				if err := background.Catch(func() error { return call(l, parts) }); !background.IsPanic(err) {
					t.Fatal(err)
				}
				passes(t, l, 1)
				if !slices.Equal(s.took, []limit.Tokens{7 * limit.Token}) {
					t.Errorf("of 7 tokens that are owed the store's next call took %v", s.took)
				}
			})
		})
	}
}
