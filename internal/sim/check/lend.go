package check

import (
	"time"

	"aliquot/budget"
	"aliquot/internal/prefetch"
	"aliquot/limit"
)

// A chunk lives for a tenth of a second, and time passes here in steps of more than one.
// So the clock that a daemon looks at its chunks by is slower by slowdown, and a chunk
// lives for two quanta: long enough for buckets to fill, leases to end and shares to move
// meanwhile.
const (
	slowdown  = 22
	chunkLife = slowdown * prefetch.Life
)

// lendCall is a call that takes tokens in advance, or brings them back.
type lendCall struct {
	view  limit.View
	trip  prefetch.Call
	epoch string
}

// slow is the daemon's clock for its chunks.
func slow(at budget.Instant) budget.Instant { return at / slowdown }

func (n *node) slowNow(w *world) budget.Instant { return slow(n.now(w)) }

// spendable is what the daemon could spend of its chunk at a true time.
func (n *node) spendable(now int64) limit.Tokens {
	if left := n.chunk.Left(); left > 0 && n.chunk.Peek(left, slow(n.clock.Boot(now))) == prefetch.Holds {
		return left
	}
	return 0
}

// spendChunk spends all that the daemon has in advance.
func (n *node) spendChunk(w *world) {
	left := n.spendable(w.now)
	if left == 0 {
		return
	}
	n.chunk.Spend(left, n.slowNow(w))
	w.admit(left)
	n.machine.Observe(key, budget.Usage{
		Limit: w.sc.keyLimit(), Cost: int64(left), Admitted: true, Tokens: int64(left),
		FloorCap: int64(w.sc.Limit.Capacity), ColdCap: int64(w.sc.Limit.Capacity),
	}, n.now(w))
}

// borrow makes a call that brings all back and takes as much in advance as the store
// gives, or that keeps what there is (renews) or wants nothing (returns).
func (n *node) borrow(w *world, renews, returns bool) {
	if !n.configured() {
		return
	}
	n.chunkCalled = renews || returns
	s := w.site(n.region)
	right := n.right(w.sc, w.now)
	c := lendCall{view: n.view(right, w.sc, &n.clockMap), epoch: n.epoch}
	terms := prefetch.Terms{Lends: !returns && right.Phase != budget.Limbo, Rho: int64(w.sc.RhoPPM)}
	if right.Phase == budget.Live {
		terms.Until = slow(right.Until)
	}
	// However it estimates what it needs: it needs all there is.
	n.chunk.CountCheck(limit.MaxTokens/8, n.slowNow(w))
	n.chunk.CountCheck(1, n.slowNow(w))
	if renews {
		c.view.Chunk, c.trip = n.chunk.Renew(terms, n.slowNow(w))
	} else {
		c.view.Chunk, c.trip = n.chunk.Checkout(0, terms, n.slowNow(w))
	}
	c.view.Chunk.Life *= slowdown
	fault := n.chunkFault
	n.chunkFault = storeFine
	if fault == storeSticks {
		s.stuck = append(s.stuck, storeCall{
			name: n.name, epoch: n.epoch, lend: &c, deadline: n.clockMap.Until(n.now(w).Add(lendLate)),
		})
		return
	}
	out, at, ok := s.store.Lend(c.epoch, c.view, w.now)
	if !ok || fault == storeMute {
		n.chunk.Fail(c.trip)
		return
	}
	n.took(w, &c, out, at)
}

// took takes the answer to a call.
func (n *node) took(w *world, c *lendCall, out limit.Outcome, at int64) {
	out.LentFor /= slowdown
	// The daemon believes that the store has plenty, and wants the same amount each time. Its
	// estimates are not part of a state.
	out.Tokens, out.Bucket.Cap = limit.MaxTokens, limit.MaxTokens
	n.chunk.Complete(c.trip, true, out, at, n.slowNow(w))
	if out.Amnesia {
		n.step(w, budget.StoreLost{})
	}
}

// recall ends the chunk because the share is about to change, and returns what the change brings
// back of it.
func (n *node) recall(w *world) limit.ChunkView {
	n.chunk.End()
	view, trip := n.chunk.Checkout(0, prefetch.Terms{}, n.slowNow(w))
	n.chunk.Fail(trip)
	return view
}

// revalidateChunk ends the chunk if the conditions that it depends on have changed.
func (n *node) revalidateChunk() {
	now := prefetch.Validity{Session: n.machine.Session(), Contents: n.epoch, Config: n.machine.Config().Version}
	switch ends, drops := n.validity.Ends(now); {
	case drops:
		n.chunk.Drop()
	case ends:
		n.chunk.End()
	}
	n.validity = now
}

// lendLate is how late a call that borrows a chunk may arrive: several lives of a chunk, as in
// reality.
const lendLate = 2 * chunkLife

// arriveLate lets a delayed call reach its store. Its daemon may be gone, or may learn of it.
func (w *world) arriveLate(s *site, n *node, c *storeCall) {
	if s.store.Time(w.now) > c.deadline {
		return
	}
	out, at, ok := s.store.Lend(c.lend.epoch, c.lend.view, w.now)
	switch {
	case n == nil || c.gaveUp:
	case ok:
		n.took(w, c.lend, out, at)
	default:
		n.chunk.Fail(c.lend.trip)
	}
}

// chunkLife returns the life of a chunk; 0 is the real one.
func (sc *Scenario) chunkLife() time.Duration {
	if sc.Chunks {
		return chunkLife
	}
	return 0
}
