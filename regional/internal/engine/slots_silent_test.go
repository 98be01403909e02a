package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"aliquot/budget"
	"aliquot/lua"
	"aliquot/regional/internal/storeguard"
	"aliquot/regional/store/memory"
)

// stoppedStore is a store in memory that stops at the test's word. It counts its calls.
type stoppedStore struct {
	*memory.Store
	stopped        atomic.Bool
	calls, settled atomic.Int64
}

// call makes a call in a millisecond, or waits for its deadline.
func (s *stoppedStore) call(ctx context.Context, make func() error) error {
	s.calls.Add(1)
	if s.stopped.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	<-time.After(time.Millisecond) // of the bubble's clock
	return make()
}

func (s *stoppedStore) Take(ctx context.Context, epoch string, groups []lua.Group) (out []lua.Result, now int64, err error) {
	err = s.call(ctx, func() (err error) { out, now, err = s.Store.Take(ctx, epoch, groups); return err })
	return out, now, err
}

func (s *stoppedStore) Reserve(ctx context.Context, epoch string, groups []lua.Group, r lua.Reservation) (out lua.Reserved, now int64, err error) {
	err = s.call(ctx, func() (err error) { out, now, err = s.Store.Reserve(ctx, epoch, groups, r); return err })
	return out, now, err
}

func (s *stoppedStore) Reservation(ctx context.Context, key string) (out *lua.Kept, err error) {
	err = s.call(ctx, func() (err error) { out, err = s.Store.Reservation(ctx, key); return err })
	return out, err
}

func (s *stoppedStore) Settle(ctx context.Context, epoch string, end lua.Settlement) (out lua.Settled, now int64, err error) {
	err = s.call(ctx, func() (err error) { out, now, err = s.Store.Settle(ctx, epoch, end); return err })
	if err == nil && !out.Changed {
		s.settled.Add(1)
	}
	return out, now, err
}

// probe tries the store as the daemon does, until ctx ends.
func probe(ctx context.Context, l *Engine) {
	for g := l.direct.guard; ctx.Err() == nil; <-time.After(10 * time.Millisecond) { // of the bubble's clock
		if g.Breaker.Suspects() || g.Silent() && g.Breaker.TrialIn() == 0 {
			_, _, _ = g.TakeAs(ctx, storeguard.OpProbe, l.Auth.CurrentEpoch(), func() []lua.Group { return nil })
		}
	}
}

// slotClients reserve slots, and give each back 100 ms later: they ask once a second until it is settled.
type slotClients struct {
	*testing.T
	engine *Engine

	mu       sync.Mutex
	all      sync.WaitGroup
	reserved int
	longest  time.Duration // that a call took since it was set to 0
	tries    int           // to settle, since then
}

// timed makes a call, and notes how long it takes.
func (c *slotClients) timed(tries int, call func()) {
	came := time.Now()
	call()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.longest, c.tries = max(c.longest, time.Since(came)), c.tries+tries
}

// since returns the longest call and the number of tries to settle since the last time.
func (c *slotClients) since() (longest time.Duration, tries int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	longest, tries = c.longest, c.tries
	c.longest, c.tries = 0, 0
	return longest, tries
}

// ask has one of eight clients begin each 10 ms.
func (c *slotClients) ask(lasts time.Duration) {
	for range int(lasts / (10 * time.Millisecond)) {
		c.mu.Lock()
		c.reserved++
		n := c.reserved
		c.mu.Unlock()
		c.all.Go(func() { c.one(n) })
		<-time.After(10 * time.Millisecond) // of the bubble's clock
	}
}

func (c *slotClients) one(n int) {
	in := Reserving{Request: asked(fmt.Sprint("k", n%8))[0], ID: fmt.Sprint("call-", n), TTL: time.Minute}
	var out ReserveResult
	var err error
	c.timed(0, func() { out, err = c.engine.Reserve(c.Context(), &in) })
	if err != nil || !out.Made {
		c.Errorf("reservation %d: made %t, %v", n, out.Made, err)
		return
	}
	<-time.After(100 * time.Millisecond) // of the bubble's clock
	for {
		c.timed(1, func() { _, err = c.engine.Settle(c.Context(), "", in.ID, Usage{}) })
		if !errors.Is(err, ErrNotSettled) {
			break
		}
		<-time.After(time.Second) // of the bubble's clock
	}
	if err != nil {
		c.Errorf("reservation %d is settled: %v", n, err)
	}
}

// TestSlotsInALongOutage: after 30 s without the store thousands of clients ask every second to have their slots settled.
// No call waits for that: all are answered within the patience of a caller at first, and at once when the breaker has
// opened. Each slot is given back once when the store is back.
func TestSlotsInALongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		now := func() budget.Instant { return budget.Instant(100*time.Second) + budget.Instant(time.Since(began)) }
		records, err := memory.New(memory.Config{Clock: func() int64 { return time.Now().UnixMicro() }})
		if err != nil {
			t.Fatal(err)
		}
		epoch, _ := records.Epoch(t.Context())
		s := &stoppedStore{Store: records}
		l := limiterBefore(t, s, epoch, now, `
defaults: {enforcement: independent, key: [api_key]}
rules:
  - {id: r0, algorithm: concurrency, params: {limit: 120, window: 60}}
`)
		ctx, stop := context.WithCancel(t.Context())
		var daemon sync.WaitGroup
		daemon.Go(func() { probe(ctx, l) })
		daemon.Go(func() { l.HandOver(ctx) })
		if err := l.direct.guard.ReadClock(ctx, epoch); err != nil {
			t.Fatal(err)
		}
		<-time.After(100 * time.Second) // of the bubble's clock: what was before no longer counts
		c := &slotClients{T: t, engine: l}
		c.ask(2 * time.Second)
		c.since()
		s.stopped.Store(true)
		before := s.calls.Load()
		c.ask(time.Second)
		if longest, _ := c.since(); longest > storeguard.CallerPatience+storeguard.SilentPatience {
			t.Errorf("in the first second of the outage a call took %v", longest)
		}
		c.ask(29 * time.Second)
		longest, tries := c.since()
		if longest > 0 {
			t.Errorf("later in the outage a call took %v", longest)
		}
		if tries < 10*c.reserved {
			t.Errorf("%d tries to settle %d reservations: the clients do not press", tries, c.reserved)
		}
		if n := s.calls.Load() - before; n > 100 { // 75 trials in 30 s, those that opened the breaker, and some that were under way
			t.Errorf("%d calls were made of a store that does not answer", n)
		}
		s.stopped.Store(false)
		c.ask(2 * time.Second)
		c.all.Wait()
		if longest, _ := c.since(); longest > 5*time.Millisecond {
			t.Errorf("after the outage a call took %v", longest)
		}
		if n := int(s.settled.Load()); n != c.reserved {
			t.Errorf("%d slots were given back of %d", n, c.reserved)
		}
		if n := slots(t, l, "k1"); n != 120 {
			t.Errorf("%d slots of a client are free after it, want 120", n)
		}
		stop()
		daemon.Wait()
		<-time.After(time.Minute) // of the bubble's clock: no call is under way any more
	})
}

// slots takes all slots of a client that are free.
func slots(t *testing.T, l *Engine, apiKey string) (taken int) {
	t.Helper()
	out, err := l.Decide(t.Context(), slices.Repeat(asked(apiKey), 150))
	if err != nil {
		t.Fatal(err)
	}
	for i := range out {
		if _, v := out[i].Verdicts(); v.Decision.Allowed {
			taken++
		}
	}
	return taken
}
