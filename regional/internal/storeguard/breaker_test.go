package storeguard

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"

	"aliquot/budget"
	"aliquot/internal/storeclock"
	"aliquot/lua"
	"aliquot/regional/internal/background"
	"aliquot/regional/internal/telemetry"
)

const second = budget.Instant(time.Second)

// handClock is a clock that stands still unless told.
type handClock struct{ at budget.Instant }

func (c *handClock) now() budget.Instant   { return c.at }
func (c *handClock) pass(by time.Duration) { c.at = c.at.Add(by) }

var errSick = errors.New("store: sick")

// TestBreakerWaits: a store that is down is tried each half second, up to a fifth of it left to chance. One
// that fails soon after a good trial gets twice the pause each time, up to five seconds; a store that stays
// well resets it.
func TestBreakerWaits(t *testing.T) {
	clock := &handClock{at: 100 * second}
	var state gobreaker.State
	b := newBreaker(clock.now, func(s gobreaker.State) { state = s })
	sick := func() error { return errSick }
	well := func() error { return nil }
	trip := func() {
		t.Helper()
		for range TripAfter {
			if err := b.do(false, sick); !errors.Is(err, errSick) {
				t.Fatalf("not asked: %v", err)
			}
		}
	}
	waits := func(want time.Duration) {
		t.Helper()
		if state != gobreaker.StateOpen {
			t.Fatalf("state %v", state)
		}
		began := clock.at
		for {
			if err := b.do(false, well); !IsOpen(err) {
				t.Fatalf("a call that is no trial passed: %v", err)
			}
			if err := b.do(true, sick); !IsOpen(err) {
				break
			}
			clock.pass(time.Millisecond)
		}
		if took := clock.at.Sub(began); took > want || took < want*8/10 {
			t.Errorf("open for %v, want %v less up to 20 %%", took, want)
		}
	}
	for _, want := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second} {
		trip() // at once after a good trial, but for the first time
		for range 3 {
			waits(want)
		}
		clock.pass(want)
		if err := b.do(true, well); err != nil || state != gobreaker.StateClosed {
			t.Fatalf("after a good call: %v, %v", err, state)
		}
		if err := b.do(false, well); err != nil {
			t.Fatalf("a call after it: %v", err)
		}
	}
	clock.pass(MaxOpen)
	trip()
	waits(minOpen)
}

// TestBreakerCountsSeldomFailures: five failures in a row open the breaker, however long after
// each other they come; a call that succeeds in between begins the count again.
func TestBreakerCountsSeldomFailures(t *testing.T) {
	clock := &handClock{at: 100 * second}
	b := newBreaker(clock.now, func(gobreaker.State) {})
	failing := func(n int) {
		for range n {
			b.do(false, func() error { return errSick })
			clock.pass(10 * tripWindow)
		}
	}
	failing(TripAfter - 1)
	if b.Open.Load() || !b.Suspects() {
		t.Fatalf("after %d failures: open %v, suspects %v", TripAfter-1, b.Open.Load(), b.Suspects())
	}
	b.do(false, func() error { return nil })
	if b.Suspects() {
		t.Fatal("a call that succeeded leaves a suspicion")
	}
	failing(TripAfter - 1)
	if b.Open.Load() {
		t.Fatal("failures from before a success count")
	}
	failing(1)
	if !b.Open.Load() {
		t.Fatalf("%d failures in a row, one every %v, leave the breaker closed", TripAfter, 10*tripWindow)
	}
}

// TestPanicsDoNotTrip: a bug that the calls of one key meet is none of the store's; where it
// was is told as without the breaker.
func TestPanicsDoNotTrip(t *testing.T) {
	clock := &handClock{at: 100 * second}
	b := newBreaker(clock.now, func(s gobreaker.State) { t.Errorf("state %v", s) })
	for range 4 * tripSample {
		err := background.Catch(func() error { return b.do(false, func() error { panic("a bug") }) })
		if !background.IsPanic(err) || !strings.HasPrefix(err.Error(), "a bug\n") || !strings.Contains(err.Error(), "TestPanicsDoNotTrip") {
			t.Fatalf("a call that panicked: %v", err)
		}
	}
	if err := b.do(false, func() error { return nil }); err != nil {
		t.Errorf("a call after it: %v", err)
	}
}

// lateStore is a store whose calls end with a fault, after a time of the test's
// clock.
type lateStore struct {
	Store
	clock *handClock
	takes time.Duration
	err   error
}

func (s *lateStore) Take(context.Context, string, []lua.Group) ([]lua.Result, int64, error) {
	s.clock.pass(s.takes)
	return nil, 1, s.err
}

// unseen learns nothing of the store.
type unseen struct{}

func (unseen) StoreEpoch(string) bool                     { return false }
func (unseen) Sample(string, storeclock.Sample) bool      { return false }
func (unseen) ClockWasSet(string, storeclock.Sample) bool { return false }

// TestStarvedCallsDoNotTrip: a timeout that this process noticed long after the
// deadline says nothing of the store, while it answered recently.
func TestStarvedCallsDoNotTrip(t *testing.T) {
	for _, c := range []struct {
		name  string
		heard bool
		takes time.Duration
		err   error
		open  bool
	}{
		{"timeouts noticed in time", true, Deadline + time.Millisecond, context.DeadlineExceeded, true},
		{"timeouts noticed late", true, Deadline + starvedAfter + time.Millisecond, context.DeadlineExceeded, false},
		{"late, of a store that never answered", false, Deadline + starvedAfter + time.Millisecond, context.DeadlineExceeded, true},
		{"other failures noticed late", true, Deadline + starvedAfter + time.Millisecond, errSick, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := &handClock{at: 100 * second}
			late := &lateStore{clock: clock}
			open := false
			g := New(Config{
				Store: late, Observer: unseen{}, Now: clock.now, Metrics: telemetry.New("us", "test", prometheus.NewRegistry()),
				Changed: func(o bool, _ error) { open = o }, Failed: func() {},
			})
			for range TripAfter {
				if c.heard {
					late.takes, late.err = 0, nil
					g.Take(t.Context(), "", noGroups)
				}
				late.takes, late.err = c.takes, c.err
				if _, _, err := g.Take(t.Context(), "", noGroups); err == nil {
					t.Fatal("no error")
				} else if excused := Reason(err) == "starved"; excused == c.open {
					t.Errorf("counted as %s: %v", Reason(err), err)
				}
			}
			if c.heard {
				// In a row, from here on, for less than starvedFor.
				for range TripAfter {
					g.Take(t.Context(), "", noGroups)
				}
			}
			if open != c.open {
				t.Errorf("open: %v", open)
			}
		})
	}
}

// TestStarvationIsNoExcuseForLong: a store that answers nothing is given up after
// starvedFor however busy this machine is.
func TestStarvationIsNoExcuseForLong(t *testing.T) {
	clock := &handClock{at: 100 * second}
	late := &lateStore{clock: clock}
	open := false
	g := New(Config{
		Store: late, Observer: unseen{}, Now: clock.now, Metrics: telemetry.New("us", "test", prometheus.NewRegistry()),
		Changed: func(o bool, _ error) { open = o }, Failed: func() {},
	})
	g.Take(t.Context(), "", noGroups)
	began := clock.at
	late.takes, late.err = 2*Deadline, context.DeadlineExceeded
	for !open {
		g.Take(t.Context(), "", noGroups)
		if clock.at.Sub(began) > starvedFor+(TripAfter+1)*late.takes {
			t.Fatal("still closed")
		}
	}
	if clock.at.Sub(began) < starvedFor {
		t.Errorf("opened after %v", clock.at.Sub(began))
	}
}

func noGroups() []lua.Group { return nil }

// otherStore has other contents than expected, and says which unless it fails.
type otherStore struct {
	Store
	learned bool
	fails   error
}

func (s *otherStore) Take(context.Context, string, []lua.Group) ([]lua.Result, int64, error) {
	if !s.learned {
		return nil, 0, &lua.EpochError{}
	}
	return nil, 1, nil
}

func (s *otherStore) Epoch(context.Context) (string, error) {
	s.learned = s.fails == nil
	return "e2", s.fails
}

// TestContentsThatCannotBeLearnedOpenTheBreaker: a store says that it has other contents, and fails when it is asked which.
// Nothing is decided by it then, however well it answers. Once it says which, it is tried at once.
func TestContentsThatCannotBeLearnedOpenTheBreaker(t *testing.T) {
	clock := &handClock{at: 100 * second}
	s := &otherStore{fails: errors.New("store: give slot 5461 its epoch: NOREPLICAS Not enough good replicas to write.")}
	var open bool
	var reason string
	g := New(Config{
		Store: s, Observer: unseen{}, Now: clock.now, Metrics: telemetry.New("us", "test", prometheus.NewRegistry()),
		Changed: func(now bool, cause error) { open, reason = now, Reason(cause) }, Failed: func() {},
		Bugs: &background.Panics{},
	})
	check := func() {
		if _, _, err := g.Take(t.Context(), "e1", noGroups); Reason(err) == "epoch" {
			_ = g.Learn(t.Context())
		}
	}
	for range TripAfter {
		check()
	}
	if open {
		t.Fatal("the answer before the first failure counts as one")
	}
	if check(); !open || reason != "noreplicas" {
		t.Fatalf("open %t for %q after %d answers that nobody can use", open, reason, TripAfter)
	}
	s.fails = nil
	if err := g.Learn(t.Context()); err != nil || g.Breaker.TrialIn() != 0 {
		t.Fatalf("%v, tried in %v", err, g.Breaker.TrialIn())
	}
	if _, _, err := g.TakeAs(t.Context(), OpProbe, "e2", noGroups); err != nil || open {
		t.Errorf("%v, open %t by contents that are known", err, open)
	}
}
