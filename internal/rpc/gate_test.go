package rpc

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestGate: who finds room passes, who finds none waits in turn, and for no longer than the longest wait.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(10, 100, 50*time.Millisecond)
		first, err := g.Enter(t.Context(), 8)
		if err != nil {
			t.Fatal(err)
		}
		var order []int64
		var mu sync.Mutex
		var all sync.WaitGroup
		for _, size := range []int64{10, 1, 2} { // the small ones do not pass the large one
			all.Go(func() {
				leave, err := g.Enter(t.Context(), size)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, size)
				mu.Unlock()
				leave()
			})
			synctest.Wait()
		}
		if used, waiting := g.Used(); used != 8 || waiting != 3 {
			t.Errorf("%d used, %d wait", used, waiting)
		}
		first()
		all.Wait()
		if len(order) != 3 || order[0] != 10 {
			t.Errorf("in the order %v", order)
		}
		hold, _ := g.Enter(t.Context(), 100) // more than there is takes all there is
		began := time.Now()
		if _, err := g.Enter(t.Context(), 1); !errors.Is(err, ErrCrowded) || time.Since(began) != 50*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := g.Enter(gone, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that has gone: %v", err)
		}
		hold()
		if used, waiting := g.Used(); used != 0 || waiting != 0 {
			t.Errorf("%d used, %d wait at the end", used, waiting)
		}
	})
}

// TestGateRefusesTheNewest: of many at once those are refused at once whose turn would not come in time,
// so that what waits is served within the longest wait.
func TestGateRefusesTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1, 1000, 50*time.Millisecond)
		var mu sync.Mutex
		served, refused, longest := 0, 0, time.Duration(0)
		var all sync.WaitGroup
		for range 10_000 { // one each 0.5 ms, of a millisecond each
			all.Go(func() {
				came := time.Now()
				leave, err := g.Enter(t.Context(), 1)
				mu.Lock()
				longest = max(longest, time.Since(came))
				if err != nil {
					refused++
					mu.Unlock()
					return
				}
				served++
				mu.Unlock()
				<-time.After(time.Millisecond)
				leave()
			})
			<-time.After(500 * time.Microsecond)
		}
		all.Wait()
		if served < 4900 || longest > 50*time.Millisecond {
			t.Errorf("%d served of some 5,000, %d refused, the longest wait is %v", served, refused, longest)
		}
	})
}

// TestGateAwait: a caller that was let in before waits in turn, longer than others and where no more may wait.
func TestGateAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1, 0, 50*time.Millisecond)
		hold, err := g.Enter(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		go func() {
			<-time.After(time.Hour) // of the bubble's clock
			hold()
		}()
		if err := g.Await(t.Context(), 1); err != nil || time.Since(began) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := g.Await(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that has gone: %v", err)
		}
		g.Leave(1)
		if used, waiting := g.Used(); used != 0 || waiting != 0 {
			t.Errorf("%d used, %d wait at the end", used, waiting)
		}
	})
}

func BenchmarkGate(b *testing.B) {
	g := NewGate(256, 1000, 50*time.Millisecond)
	ctx := context.Background()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if g.TryEnter(ctx, 1) == nil {
				g.Leave(1)
			}
		}
	})
}
