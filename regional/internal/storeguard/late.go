package storeguard

import (
	"sync"
	"sync/atomic"

	"aliquot/budget"
)

// A store may answer each call within its deadline and later than its callers wait. The breaker stays closed, because the
// calls succeed; yet all callers are answered without the store.

// lateness is since when callers have given up, while none had the store's answer and no call would have been in time.
type lateness struct {
	// since is when the first of them gave up; 0: none has.
	since atomic.Int64

	mu   sync.Mutex
	told bool // this has gone on for tripWindow
}

// GaveUp counts checks whose caller did not wait for the store any longer.
func (g *Guard) GaveUp(err error) {
	g.CountRefused(err)
	now := g.now()
	if g.late.since.CompareAndSwap(0, int64(now)) {
		return
	}
	g.late.mu.Lock()
	defer g.late.mu.Unlock()
	since := budget.Instant(g.late.since.Load())
	if g.late.told || since == 0 || now.Sub(since) < tripWindow {
		return
	}
	g.late.told = true
	g.failure.Store(&err)
	g.tellLocked()
}

// inTime records that the store's answer reached a caller, or would have reached one.
func (g *Guard) inTime() {
	if g.late.since.Load() == 0 {
		return
	}
	g.late.mu.Lock()
	defer g.late.mu.Unlock()
	g.late.since.Store(0)
	if g.late.told {
		g.late.told = false
		g.tellLocked()
	}
}

// tellLocked calls changed. The caller holds late.mu.
func (g *Guard) tellLocked() {
	var cause error
	if last := g.failure.Load(); last != nil {
		cause = *last
	}
	g.changed(g.late.told || g.Breaker.Open.Load(), cause)
}
