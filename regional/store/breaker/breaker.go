// Package breaker keeps calls away from a node of a Redis Cluster that does not answer, and from a slot that the
// cluster refuses.
package breaker

import (
	"errors"
	"sync"
	"time"
)

const (
	// A node that failed TripAfter calls in a row gets only a trial each TrialEvery.
	TripAfter  = 5
	TrialEvery = 500 * time.Millisecond
	// SuspectAfter is the number of failures in a row after which a node gets one call at a time.
	// The calls that find out about it then do not hold up the calls of other nodes.
	SuspectAfter = 3
	// A failure is late if it took longer than its deadline by more than 1/lateBy of it. This
	// process then had no CPU to notice it sooner, nor to read a reply. A late failure does not
	// count against a node that answered within excusedFor.
	lateBy     = 5
	excusedFor = time.Second
)

// ErrOpen: the node gets no call now.
var ErrOpen = errors.New("the node has not answered recently and gets no calls for now")

// Breaker keeps calls away from a node that does not answer, so that calls of other nodes do
// not wait for it. The zero value is closed. Safe for concurrent use.
type Breaker struct {
	mu        sync.Mutex
	failed    int
	until     time.Time // of the next trial; zero: closed
	inFlight  int       // calls under way
	lastReply time.Time // when it last answered
}

// Enter returns nil if the caller may make a call; then it must call Leave at the end. While the
// breaker is open only trials pass, because no client waits for them. A call of many clients would
// make all of them wait for the one node.
func (b *Breaker) Enter(now time.Time, trial bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed >= SuspectAfter && (b.inFlight > 0 || now.Before(b.until)) || b.failed >= TripAfter && !trial {
		return ErrOpen
	}
	b.inFlight++
	return nil
}

// Transition is how the end of a call changed the breaker.
type Transition int

// Same: it is open or closed as before. Opened and Closed: it is now.
const (
	Same Transition = iota
	Opened
	Closed
)

// Leave records the end of a call: whether the node was unwell, how long the call took, and how long it had.
func (b *Breaker) Leave(now time.Time, unwell bool, took, had time.Duration) Transition {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight--
	if !unwell {
		was := b.failed
		b.failed, b.until, b.lastReply = 0, time.Time{}, now
		if was >= TripAfter {
			return Closed
		}
		return Same
	}
	if took > had+had/lateBy && now.Sub(b.lastReply) < excusedFor {
		return Same
	}
	if b.failed++; b.failed < TripAfter {
		return Same
	}
	b.failed = TripAfter
	if now.Before(b.until) {
		return Same // another call of the same period
	}
	first := b.until.IsZero()
	b.until = now.Add(TrialEvery)
	if first {
		return Opened
	}
	return Same
}

// Reset closes the breaker of a node that nobody needs to ask any more, and reports whether it was
// open.
func (b *Breaker) Reset() (was bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was = b.failed >= TripAfter
	b.failed, b.until = 0, time.Time{}
	return was
}

// Open reports whether it is open: only trials pass, if it is time for one.
func (b *Breaker) Open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed >= TripAfter
}

// TrialIn returns the time until the next trial of the node; 0: it is due, or the breaker is closed.
func (b *Breaker) TrialIn(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(0, b.until.Sub(now))
}
