package rpc

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrCrowded is what Gate.Enter returns where there is no room and none is to come in time.
var ErrCrowded = errors.New("too much is under way")

// Gate bounds what is under way at once, in units of the caller's: calls, or bytes. Those that find no
// room wait in the order in which they came, as long as the wait is short; later ones are refused at
// once where it is not to be. Safe for concurrent use.
type Gate struct {
	room  int64         // in all
	wait  time.Duration // the longest
	queue int           // how many may wait

	mu      sync.Mutex
	used    int64
	waiting list.List // of *turn
	// pace is the time between two that leave while others wait, smoothed, and left when the last one did.
	pace time.Duration
	left time.Time
}

// paceOver is over how many that leave their pace is smoothed: one pause of the process, as long as the
// longest wait, has nobody refused who comes after it.
const paceOver = 256

// turn is one that waits.
type turn struct {
	size  int64
	ready chan struct{} // closed when it has its room
}

// NewGate makes a gate for room units, before which at most queue wait, each for wait at most.
func NewGate(room int64, queue int, wait time.Duration) *Gate {
	return &Gate{room: room, wait: wait, queue: queue}
}

// Enter takes size units, all there are at most, and returns how to give them back, which is called
// once. Its error is ErrCrowded, or wraps the context's.
func (g *Gate) Enter(ctx context.Context, size int64) (leave func(), err error) {
	if size = min(size, g.room); !g.try(size) {
		if err := g.await(ctx, size); err != nil {
			return nil, err
		}
	}
	return func() { g.Leave(size) }, nil
}

// TryEnter is Enter where size is at most the room and the caller calls Leave itself: nothing is allocated
// where nobody waits.
func (g *Gate) TryEnter(ctx context.Context, size int64) error {
	if g.try(size) {
		return nil
	}
	return g.await(ctx, size)
}

func (g *Gate) try(size int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting.Len() > 0 || g.used+size > g.room {
		return false
	}
	g.used += size
	return true
}

// await waits for size units in turn.
func (g *Gate) await(ctx context.Context, size int64) error {
	g.mu.Lock()
	if g.waiting.Len() == 0 && g.used+size <= g.room {
		g.used += size
		g.mu.Unlock()
		return nil
	}
	if n := g.waiting.Len(); n >= g.queue || time.Duration(n)*g.pace > g.wait {
		g.mu.Unlock()
		return ErrCrowded
	}
	if g.waiting.Len() == 0 {
		g.left = time.Now() // the pace is that of now
	}
	t := &turn{size: size, ready: make(chan struct{})}
	at := g.waiting.PushBack(t)
	g.mu.Unlock()
	timer := time.NewTimer(g.wait)
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
	case <-t.ready: // meanwhile
		return nil
	default:
	}
	g.waiting.Remove(at)
	if g.waiting.Len() == 0 {
		g.pace = 0
	}
	g.admit() // a smaller one behind it may have room
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
	g.pace += (now.Sub(g.left) - g.pace) / paceOver
	g.left = now
	g.admit()
}

// Retake takes size units, at most all there are, that its caller has given back for a while. It does not
// wait: where there is no room, others do until there is some again.
func (g *Gate) Retake(size int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used += min(size, g.room)
}

// admit lets those in who have room, in turn.
func (g *Gate) admit() {
	for first := g.waiting.Front(); first != nil; first = g.waiting.Front() {
		t := first.Value.(*turn)
		if g.used+t.size > g.room {
			return
		}
		g.used += t.size
		g.waiting.Remove(first)
		close(t.ready)
	}
	g.pace = 0
}

// Used returns how many units are taken, and how many callers wait.
func (g *Gate) Used() (used int64, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used, g.waiting.Len()
}
