package store

import (
	"errors"
	"sync"
	"time"
)

const (
	// A node that failed tripAfter calls in a row is left alone for openLeast, then for
	// twice as long each time that the next call fails too, up to openMost.
	tripAfter = 5
	openLeast = 500 * time.Millisecond
	openMost  = 5 * time.Second
)

var errOpen = errors.New("the node did not answer lately and is not asked for now")

// nodeBreaker keeps calls off a node that does not answer, so that the others do not
// wait for it. The zero value is closed. Safe for concurrent use.
type nodeBreaker struct {
	mu     sync.Mutex
	failed int
	wait   time.Duration
	until  time.Time
	trying bool // one call tries it after a wait
}

// enter asks for leave to make a call, which leave ends.
func (b *nodeBreaker) enter() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed < tripAfter {
		return nil
	}
	if b.trying || time.Now().Before(b.until) {
		return errOpen
	}
	b.trying = true
	return nil
}

// leave tells what became of a call, and returns true if the node is to be left alone
// from now on.
func (b *nodeBreaker) leave(unwell bool) (tripped bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = false
	if !unwell {
		b.failed, b.wait = 0, 0
		return false
	}
	if b.failed++; b.failed < tripAfter {
		return false
	}
	b.failed = tripAfter
	if time.Now().Before(b.until) {
		return false // another call of the same time
	}
	first := b.wait == 0
	b.wait = min(max(2*b.wait, openLeast), openMost)
	b.until = time.Now().Add(b.wait)
	return first
}

func (b *nodeBreaker) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed >= tripAfter
}
