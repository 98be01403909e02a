package rpc

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// ErrCrowded is the error of Gate.Enter if there is no room and none will be free in time.
var ErrCrowded = errors.New("too much is under way")

// Gate bounds the work that is under way at once, in units of the caller's choice: calls, or bytes.
// If there is no room, callers wait in the order in which they came, as long as the wait is short. If
// it would be long, the gate refuses later callers at once. Safe for concurrent use.
type Gate struct {
	capacity int64         // in total
	wait     time.Duration // the longest wait
	queue    int           // how many callers may wait

	mu      sync.Mutex
	used    int64
	waiting list.List // of *waiter
	// leaveInterval is the smoothed time between two calls of Leave while callers wait. lastLeave is
	// the time of the latest one.
	leaveInterval time.Duration
	lastLeave     time.Time
}

// leaveSmoothing is the number of calls of Leave over which leaveInterval is smoothed. So one pause of
// the process, even as long as the longest wait, does not make the gate refuse the callers after it.
const leaveSmoothing = 256

// forever is the wait of a caller that waits as long as its context.
const forever = time.Duration(math.MaxInt64)

// waiter is one waiting caller.
type waiter struct {
	size  int64
	ready chan struct{} // closed when the caller has its room
}

// NewGate returns a gate for capacity units. At most queue callers may wait, each for at most wait.
func NewGate(capacity int64, queue int, wait time.Duration) *Gate {
	return &Gate{capacity: capacity, wait: wait, queue: queue}
}

// Enter takes size units, or all units if size is larger. The caller must call leave once to give
// them back. The error is ErrCrowded, or wraps the context's.
func (g *Gate) Enter(ctx context.Context, size int64) (leave func(), err error) {
	if size = min(size, g.capacity); !g.tryTake(size) {
		if err := g.waitTurn(ctx, size, g.wait); err != nil {
			return nil, err
		}
	}
	return func() { g.Leave(size) }, nil
}

// TryEnter is Enter for a size of at most the capacity and a caller that calls Leave itself. It
// allocates nothing if it need not wait.
func (g *Gate) TryEnter(ctx context.Context, size int64) error {
	if g.tryTake(size) {
		return nil
	}
	return g.waitTurn(ctx, size, g.wait)
}

// Await is TryEnter for a caller that has been let in before: it waits in turn until there is room or ctx ends.
func (g *Gate) Await(ctx context.Context, size int64) error {
	if g.tryTake(size) {
		return nil
	}
	return g.waitTurn(ctx, size, forever)
}

// tryTake takes size units if they are free and no caller waits.
func (g *Gate) tryTake(size int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting.Len() > 0 || g.used+size > g.capacity {
		return false
	}
	g.used += size
	return true
}

// waitTurn waits for size units in turn, at most for wait.
func (g *Gate) waitTurn(ctx context.Context, size int64, wait time.Duration) error {
	g.mu.Lock()
	if g.waiting.Len() == 0 && g.used+size <= g.capacity {
		g.used += size
		g.mu.Unlock()
		return nil
	}
	if n := g.waiting.Len(); wait != forever && (n >= g.queue || time.Duration(n)*g.leaveInterval > wait) {
		g.mu.Unlock()
		return ErrCrowded
	}
	if g.waiting.Len() == 0 {
		g.lastLeave = time.Now() // so that leaveInterval measures from now on
	}
	t := &waiter{size: size, ready: make(chan struct{})}
	at := g.waiting.PushBack(t)
	g.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	var err error
	select {
	case <-t.ready:
		return nil
	case <-timer.C:
		err = ErrCrowded
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", ErrCrowded, ctx.Err())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-t.ready: // the room came at the same time
		return nil
	default:
	}
	g.waiting.Remove(at)
	if g.waiting.Len() == 0 {
		g.leaveInterval = 0
	}
	g.admit() // a smaller one behind this may have room
	return err
}

// Leave gives size units back.
func (g *Gate) Leave(size int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used -= size
	if g.waiting.Len() == 0 {
		return
	}
	now := time.Now()
	g.leaveInterval += (now.Sub(g.lastLeave) - g.leaveInterval) / leaveSmoothing
	g.lastLeave = now
	g.admit()
}

// Retake takes size units, or all units if size is larger, which its caller has given back for a
// while. It does not wait. If there is no room, other callers wait until there is some again.
func (g *Gate) Retake(size int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used += min(size, g.capacity)
}

// admit gives waiting callers their room, in turn. The caller holds mu.
func (g *Gate) admit() {
	for first := g.waiting.Front(); first != nil; first = g.waiting.Front() {
		t := first.Value.(*waiter)
		if g.used+t.size > g.capacity {
			return
		}
		g.used += t.size
		g.waiting.Remove(first)
		close(t.ready)
	}
	g.leaveInterval = 0
}

// Used returns how many units are taken and how many callers wait.
func (g *Gate) Used() (used int64, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used, g.waiting.Len()
}
