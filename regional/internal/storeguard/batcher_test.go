package storeguard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/charge"
)

// slowStore is the far side of a batcher: each call takes a millisecond.
type slowStore struct {
	mu    sync.Mutex
	calls [][]limit.Tokens // the costs of the groups of each call
	fail  func(groups []*charge.Transaction) error
	takes time.Duration
	// panics of calls that the batcher told of.
	panics atomic.Int64
}

func (s *slowStore) ask(_ context.Context, groups []*charge.Transaction) error {
	costs := make([]limit.Tokens, len(groups))
	for i, g := range groups {
		costs[i] = g.Cost
	}
	s.mu.Lock()
	s.calls = append(s.calls, costs)
	s.mu.Unlock()
	<-time.After(s.takes) // of the bubble's clock
	if s.fail != nil {
		return s.fail(groups)
	}
	return nil
}

// sort puts calls in the order of their first groups: calls that are made at one instant come
// here in any order.
func (s *slowStore) sort() {
	slices.SortFunc(s.calls, func(a, b []limit.Tokens) int { return cmp.Compare(a[0], b[0]) })
}

// bubble is a test in virtual time with a batcher before a slow store.
func bubble(t *testing.T, test func(t *testing.T, s *slowStore, b *Batcher, refused *[]error)) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{takes: time.Millisecond}
		var mu sync.Mutex
		refused := &[]error{}
		test(t, s, &Batcher{Send: s.ask, Refused: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			*refused = append(*refused, err)
		}, Caught: func(any) { s.panics.Add(1) }}, refused)
	})
}

// idle waits until the batcher has nothing to do, and sees that nothing is left.
func idle(t *testing.T, b *Batcher) {
	t.Helper()
	<-time.After(time.Minute) // of the bubble's clock
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running != 0 || b.queued != 0 || len(b.queue) != 0 {
		t.Errorf("left behind: %d calls, %d groups, %d callers", b.running, b.queued, len(b.queue))
	}
}

// callers are checks under way, each of a goroutine of its own.
type callers struct {
	b    *Batcher
	errs []chan error
}

// arrive starts a check of n groups of the given cost, and waits until it waits.
func (c *callers) arrive(ctx context.Context, cost limit.Tokens, n int) {
	groups := make([]*charge.Transaction, n)
	for i := range groups {
		groups[i] = &charge.Transaction{Cost: cost}
	}
	done := make(chan error, 1)
	c.errs = append(c.errs, done)
	go func() { done <- c.b.Decide(ctx, groups) }()
	synctest.Wait()
}

// fill starts as many calls as may be under way at once, each with a caller of its own.
func (c *callers) fill(ctx context.Context) {
	for range BatchCalls {
		c.arrive(ctx, 1, GroupsPerCall)
	}
}

func (c *callers) want(t *testing.T, who int, want error) {
	t.Helper()
	if err := <-c.errs[who]; !errors.Is(err, want) || (want == nil) != (err == nil) {
		t.Errorf("caller %d: %v, want %v", who, err, want)
	}
}

func TestBatcherSendsAtOnceWhenIdle(t *testing.T) {
	bubble(t, func(t *testing.T, s *slowStore, b *Batcher, _ *[]error) {
		began := time.Now()
		for range 3 {
			if err := b.Decide(t.Context(), []*charge.Transaction{{Cost: 1}}); err != nil {
				t.Fatal(err)
			}
		}
		took := time.Since(began)
		idle(t, b)
		if took != 3*s.takes || len(s.calls) != 3 {
			t.Errorf("3 checks took %v and %d calls", took, len(s.calls))
		}
	})
}

// TestBatcherSpacesCalls: while a call is under way, the next one begins when that one ends, callSpacing
// after it began, or when the checks that wait fill a call, whichever comes first.
func TestBatcherSpacesCalls(t *testing.T) {
	for _, x := range []struct {
		name   string
		takes  time.Duration
		later  int           // checks that arrive while the first call is under way
		begins time.Duration // after the first call: the call that takes these along
	}{
		{"fast store", callSpacing / 2, 1, callSpacing / 2},
		{"slow store", 10 * callSpacing, 2, callSpacing},
		{"slow store, a full call", 10 * callSpacing, GroupsPerCall, callSpacing / 4},
	} {
		t.Run(x.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *slowStore, b *Batcher, _ *[]error) {
				s.takes = x.takes
				began := time.Now()
				c := callers{b: b}
				c.arrive(t.Context(), 1, 1)
				<-time.After(callSpacing / 4)
				for range x.later {
					c.arrive(t.Context(), 1, 1)
				}
				for who := range c.errs {
					c.want(t, who, nil)
				}
				if took := time.Since(began); took != x.begins+x.takes {
					t.Errorf("the last answer came after %v, want %v", took, x.begins+x.takes)
				}
				if idle(t, b); len(s.calls) != 2 || len(s.calls[1]) != x.later {
					t.Errorf("calls of %v", s.calls)
				}
			})
		})
	}
}

// TestBatcherStartsNoMoreThanBatchCalls: a store that answers nothing gets that many calls, callSpacing
// apart, and no more.
func TestBatcherStartsNoMoreThanBatchCalls(t *testing.T) {
	bubble(t, func(t *testing.T, s *slowStore, b *Batcher, _ *[]error) {
		s.takes = 100 * callSpacing
		ctx, cancel := context.WithCancel(t.Context())
		c := callers{b: b}
		for range 2 * BatchCalls {
			c.arrive(ctx, 1, 1)
			<-time.After(callSpacing)
		}
		s.mu.Lock()
		if len(s.calls) != BatchCalls {
			t.Errorf("%d calls are under way, want %d", len(s.calls), BatchCalls)
		}
		s.mu.Unlock()
		cancel()
		for who := range c.errs {
			c.want(t, who, charge.ErrGone)
		}
		idle(t, b)
	})
}

// TestBatcherCollects: while calls are under way checks wait, and the next call takes
// all it holds, in the order of their arrival.
func TestBatcherCollects(t *testing.T) {
	bubble(t, func(t *testing.T, s *slowStore, b *Batcher, _ *[]error) {
		c := callers{b: b}
		c.fill(t.Context())
		for i := range 100 {
			c.arrive(t.Context(), limit.Tokens(2+i), 1)
		}
		for who := range c.errs {
			c.want(t, who, nil)
		}
		idle(t, b)
		s.sort()
		if len(s.calls) != BatchCalls+2 || len(s.calls[BatchCalls]) != GroupsPerCall || len(s.calls[BatchCalls+1]) != 100-GroupsPerCall {
			t.Fatalf("calls of %v", s.calls)
		}
		if all := slices.Concat(s.calls...); !slices.IsSorted(all) {
			t.Errorf("out of order: %v", all)
		}
	})
}

// TestBatcherKeepsGroupsTogether: a caller's groups are never split over calls, and a
// large one is not overtaken.
func TestBatcherKeepsGroupsTogether(t *testing.T) {
	bubble(t, func(t *testing.T, s *slowStore, b *Batcher, _ *[]error) {
		c := callers{b: b}
		c.fill(t.Context())
		for i, n := range []int{1, GroupsPerCall, 1} {
			c.arrive(t.Context(), limit.Tokens(10+i), n)
		}
		for who := range c.errs {
			c.want(t, who, nil)
		}
		idle(t, b)
		s.sort()
		var got []int
		for _, call := range s.calls[BatchCalls:] {
			got = append(got, len(call))
		}
		if !slices.Equal(got, []int{1, GroupsPerCall, 1}) {
			t.Errorf("calls of %v groups", got)
		}
	})
}

// TestBatcherCallerLeaves: a caller that goes away while it waits is not charged, and
// one whose call is under way does not take the others with it.
func TestBatcherCallerLeaves(t *testing.T) {
	bubble(t, func(t *testing.T, s *slowStore, b *Batcher, refused *[]error) {
		ctx, cancel := context.WithCancel(t.Context())
		c := callers{b: b}
		c.arrive(ctx, 1, GroupsPerCall) // under way
		for range BatchCalls - 1 {
			c.arrive(t.Context(), 1, GroupsPerCall)
		}
		c.arrive(ctx, 66, 1) // waits
		c.arrive(t.Context(), 2, 1)
		cancel()
		c.want(t, 0, charge.ErrGone)
		c.want(t, BatchCalls, charge.ErrGone)
		c.want(t, BatchCalls+1, nil)
		idle(t, b)
		if all := slices.Concat(s.calls...); slices.Contains(all, 66) {
			t.Errorf("a caller that left was charged: %v", all)
		}
		if len(*refused) != 0 {
			t.Errorf("counted as the store's failure: %v", *refused)
		}
	})
}

// TestBatcherDeadlines: a caller's own deadline is kept to the microsecond, and nobody
// waits for a silent store longer than CallerPatience: those that come then hardly at all.
func TestBatcherDeadlines(t *testing.T) {
	bubble(t, func(t *testing.T, s *slowStore, b *Batcher, refused *[]error) {
		s.takes = time.Second
		began := time.Now()
		c := callers{b: b}
		c.fill(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		c.arrive(ctx, 66, 1)
		c.arrive(t.Context(), 67, 1)
		waited := func(who int, want error, most time.Duration) {
			t.Helper()
			c.want(t, who, want)
			if took := time.Since(began); took != most {
				t.Errorf("caller %d waited until %v, want %v", who, took, most)
			}
		}
		waited(BatchCalls, context.DeadlineExceeded, 30*time.Millisecond)
		waited(BatchCalls+1, errStalled, CallerPatience)
		for who := range BatchCalls {
			waited(who, ErrGivenUp, CallerPatience)
		}
		c.arrive(t.Context(), 68, 1)
		waited(BatchCalls+2, errStalled, CallerPatience+SilentPatience)
		idle(t, b)
		if all := slices.Concat(s.calls...); slices.Max(all) > 1 {
			t.Errorf("checks that were given up reached the store: %v", all)
		}
		if len(*refused) != BatchCalls+2 || Reason((*refused)[0]) != "stall" {
			t.Errorf("refused %v", *refused)
		}
	})
}

// TestBatcherWaitsForASlowStore: a store that answers others is worth waiting for, but
// nobody waits longer than maxQueueWait for a turn.
func TestBatcherWaitsForASlowStore(t *testing.T) {
	bubble(t, func(t *testing.T, s *slowStore, b *Batcher, refused *[]error) {
		s.takes = CallerPatience / 2
		c := callers{b: b}
		turns := int(maxQueueWait / s.takes)
		for range (turns + 4) * BatchCalls {
			c.arrive(t.Context(), 1, GroupsPerCall)
			<-time.After(s.takes / BatchCalls / 8) // their answers do not come all at once
		}
		last := len(c.errs) - 1
		for who := range turns * BatchCalls {
			c.want(t, who, nil)
		}
		c.want(t, last, errQueued)
		idle(t, b)
		for _, err := range *refused {
			if !errors.Is(err, errQueued) {
				t.Errorf("refused %v", err)
			}
		}
	})
}

// TestBatcherFastFailures: a store that refuses at once is not silent.
func TestBatcherFastFailures(t *testing.T) {
	bubble(t, func(t *testing.T, s *slowStore, b *Batcher, refused *[]error) {
		s.fail = func([]*charge.Transaction) error { return errSick }
		for range 100 {
			if err := b.Decide(t.Context(), []*charge.Transaction{{Cost: 1}}); !errors.Is(err, errSick) {
				t.Fatal(err)
			}
		}
		idle(t, b)
		if len(*refused) > 0 {
			t.Errorf("refused %v", *refused)
		}
	})
}

// TestBatcherSharesErrors: what goes wrong with a call reaches every caller in it,
// except a bug in one caller's groups.
func TestBatcherSharesErrors(t *testing.T) {
	for _, fault := range []struct {
		name   string
		err    error
		others error
	}{
		{"store", errStarved, errStarved},
		{"bug", fmt.Errorf("%w: cost", lua.ErrInvalid), nil},
	} {
		t.Run(fault.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *slowStore, b *Batcher, _ *[]error) {
				s.fail = func(groups []*charge.Transaction) error {
					if slices.ContainsFunc(groups, func(g *charge.Transaction) bool { return g.Cost == 66 }) {
						return fault.err
					}
					return nil
				}
				c := callers{b: b}
				c.fill(t.Context())
				for _, cost := range []limit.Tokens{1, 66, 2} {
					c.arrive(t.Context(), cost, 1)
				}
				c.want(t, BatchCalls, fault.others)
				c.want(t, BatchCalls+1, fault.err)
				c.want(t, BatchCalls+2, fault.others)
			})
		})
	}
}

// TestBatcherOutlivesAPanic: every caller that shares the call is answered, once, and the calls after
// it are made as if nothing had been.
func TestBatcherOutlivesAPanic(t *testing.T) {
	bubble(t, func(t *testing.T, s *slowStore, b *Batcher, _ *[]error) {
		s.fail = func(groups []*charge.Transaction) error {
			if groups[0].Cost == 1 {
				panic("a bug")
			}
			return nil
		}
		c := callers{b: b}
		c.fill(t.Context())
		c.arrive(t.Context(), 1, 1)
		c.arrive(t.Context(), 2, 1)
		for who := range c.errs {
			c.want(t, who, ErrBroken)
		}
		c.arrive(t.Context(), 3, 1)
		c.want(t, len(c.errs)-1, nil)
		if idle(t, b); s.panics.Load() != BatchCalls+1 {
			t.Errorf("%d panics are told of, %d calls had one", s.panics.Load(), BatchCalls+1)
		}
	})
}
