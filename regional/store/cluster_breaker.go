package store

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// A node that failed tripAfter calls in a row is left alone for openLeast, then for
	// twice as long each time that a trial fails too, up to openMost.
	tripAfter = 5
	openLeast = 500 * time.Millisecond
	openMost  = 5 * time.Second
	// suspectAfter failures in a row a node gets one call at a time, so that the calls that
	// find out about it do not hold up the others' nodes.
	suspectAfter = 3
	// A failure that took lateBy of its deadline longer than that was noticed late, since
	// this process had no CPU to do it sooner, nor had it to read a reply. That is no
	// failure of a node that answered within excusedFor.
	lateBy     = 5
	excusedFor = time.Second
)

var errOpen = errors.New("the node did not answer lately and is not asked for now")

// NodeError is the failure of one node of a Redis Cluster, which has a breaker of its own:
// it says nothing about the others.
type NodeError struct {
	Node string // host:port
	Err  error
}

func (e *NodeError) Error() string { return fmt.Sprintf("store: node %s: %v", e.Node, e.Err) }

// Unwrap is why.
func (e *NodeError) Unwrap() error { return e.Err }

// nodeBreaker keeps calls off a node that does not answer, so that the others do not
// wait for it. The zero value is closed. Safe for concurrent use.
type nodeBreaker struct {
	mu     sync.Mutex
	failed int
	wait   time.Duration
	until  time.Time
	under  int       // calls under way
	heard  time.Time // when it last answered
}

// enter asks for leave to make a call, which leave ends. While the breaker is open only
// trials get it, that nobody waits for: a call of many clients would hold up all of them
// for the one node.
func (b *nodeBreaker) enter(now time.Time, trial bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed >= suspectAfter && (b.under > 0 || now.Before(b.until)) || b.failed >= tripAfter && !trial {
		return errOpen
	}
	b.under++
	return nil
}

// turn is what a call's end changed.
type turn int

const (
	same turn = iota
	opened
	closed
)

// leave tells what became of a call that took so long and had so long.
func (b *nodeBreaker) leave(now time.Time, unwell bool, took, had time.Duration) turn {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.under--
	if !unwell {
		was := b.failed
		b.failed, b.wait, b.until, b.heard = 0, 0, time.Time{}, now
		if was >= tripAfter {
			return closed
		}
		return same
	}
	if took > had+had/lateBy && now.Sub(b.heard) < excusedFor {
		return same
	}
	if b.failed++; b.failed < tripAfter {
		return same
	}
	b.failed = tripAfter
	if now.Before(b.until) {
		return same // another call of the same time
	}
	first := b.wait == 0
	b.wait = min(max(2*b.wait, openLeast), openMost)
	b.until = now.Add(b.wait)
	if first {
		return opened
	}
	return same
}

func (b *nodeBreaker) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed >= tripAfter
}

// trialIn is in how long the node is to be tried; 0: it is not left alone.
func (b *nodeBreaker) trialIn(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(0, b.until.Sub(now))
}

// refusing are the answers of a server that does not decide anything for now.
var refusing = [...]string{"LOADING", "BUSY", "OOM", "MISCONF", "NOREPLICAS", "MASTERDOWN", "NOAUTH", "WRONGPASS", "NOPERM"}

// unwell tells the failures that a node is left alone for. A process that nobody vouched
// for is another matter than one that does not answer.
func unwell(err error) bool {
	if err == nil || errors.Is(err, errStrange) {
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
