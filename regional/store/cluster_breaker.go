package store

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// A node that failed tripAfter calls in a row gets no calls for openLeast. The time doubles
	// with each failed trial, up to openMost.
	tripAfter = 5
	minOpen   = 500 * time.Millisecond
	maxOpen   = 5 * time.Second
	// suspectAfter is the number of failures in a row after which a node gets one call at a time.
	// The calls that find out about it then do not hold up the calls of other nodes.
	suspectAfter = 3
	// A failure is late if it took longer than its deadline by more than 1/lateBy of it. This
	// process then had no CPU to notice it sooner, nor to read a reply. A late failure does not
	// count against a node that answered within excusedFor.
	lateBy     = 5
	excusedFor = time.Second
)

var (
	errOpen = errors.New("the node has not answered recently and gets no calls for now")
	// errNotBegun: the call failed before it charged anything.
	errNotBegun = errors.New("store: nothing was charged")
)

// NodeError is the failure of one node of a Redis Cluster. Each node has a breaker of its own, so
// the failure says nothing about the other nodes.
type NodeError struct {
	Node string // host:port
	Err  error
}

// Error returns the cause with the address of the node.
func (e *NodeError) Error() string { return fmt.Sprintf("store: node %s: %v", e.Node, e.Err) }

// Unwrap returns the cause.
func (e *NodeError) Unwrap() error { return e.Err }

// nodeBreaker keeps calls away from a node that does not answer, so that calls of other nodes do
// not wait for it. The zero value is closed. Safe for concurrent use.
type nodeBreaker struct {
	mu        sync.Mutex
	failed    int
	wait      time.Duration
	until     time.Time
	inFlight  int       // calls under way
	lastReply time.Time // when it last answered
}

// enter returns nil if the caller may make a call; then it must call leave at the end. While the
// breaker is open only trials pass, because no client waits for them. A call of many clients would
// make all of them wait for the one node.
func (b *nodeBreaker) enter(now time.Time, trial bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed >= suspectAfter && (b.inFlight > 0 || now.Before(b.until)) || b.failed >= tripAfter && !trial {
		return errOpen
	}
	b.inFlight++
	return nil
}

// transition is how the end of a call changed the breaker.
type transition int

const (
	same transition = iota
	opened
	closed
)

// leave records the end of a call: whether the node was unwell, how long the call took, and how long it had.
func (b *nodeBreaker) leave(now time.Time, unwell bool, took, had time.Duration) transition {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight--
	if !unwell {
		was := b.failed
		b.failed, b.wait, b.until, b.lastReply = 0, 0, time.Time{}, now
		if was >= tripAfter {
			return closed
		}
		return same
	}
	if took > had+had/lateBy && now.Sub(b.lastReply) < excusedFor {
		return same
	}
	if b.failed++; b.failed < tripAfter {
		return same
	}
	b.failed = tripAfter
	if now.Before(b.until) {
		return same // another call of the same period
	}
	first := b.wait == 0
	b.wait = min(max(2*b.wait, minOpen), maxOpen)
	b.until = now.Add(b.wait)
	if first {
		return opened
	}
	return same
}

// reset closes the breaker of a node that nobody needs to ask any more, and reports whether it was
// open.
func (b *nodeBreaker) reset() (was bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was = b.failed >= tripAfter
	b.failed, b.wait, b.until = 0, 0, time.Time{}
	return was
}

func (b *nodeBreaker) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed >= tripAfter
}

// trialIn returns the time until the next trial of the node; 0: it is due, or the breaker is closed.
func (b *nodeBreaker) trialIn(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(0, b.until.Sub(now))
}

// refusing are the error prefixes of a server that decides nothing for now.
var refusing = [...]string{"LOADING", "BUSY", "OOM", "MISCONF", "NOREPLICAS", "MASTERDOWN", "NOAUTH", "WRONGPASS", "NOPERM"}

// untouched are the error prefixes of a server that has not executed a script, or that has ended it before
// its first write.
var untouched = [...]string{
	"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "NOSCRIPT",
	"LOADING", "BUSY", "OOM", "MISCONF", "NOREPLICAS", "MASTERDOWN", "NOAUTH", "WRONGPASS",
}

// ChargedNothing reports whether a call that failed with err has charged nothing, and will charge nothing.
// A call that was sent and brought no answer may still charge.
func ChargedNothing(err error) bool {
	for _, before := range [...]error{errOpen, errNoOwner, errNotBegun, errTurn, errUnvouched} {
		if errors.Is(err, before) {
			return true
		}
	}
	for _, prefix := range untouched {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	op, network := errors.AsType[*net.OpError](err)
	return network && op.Op == "dial"
}

// unwell reports whether a failure counts against the node's breaker. errUnvouched does not, because
// a process answers.
func unwell(err error) bool {
	if err == nil || errors.Is(err, errUnvouched) {
		return false
	}
	if _, answered := errors.AsType[redis.Error](err); !answered {
		return true
	}
	for _, prefix := range refusing {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}
