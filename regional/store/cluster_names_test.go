package store

import (
	"context"
	"errors"
	"testing"

	"aliquot/lua/redistest"
)

// TestTurnsOfAName: one call after the other has its turn of a name, no more than a few
// wait for theirs, and neither who is refused nor who stops waiting speaks for the store.
func TestTurnsOfAName(t *testing.T) {
	var n names
	done, err := n.acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if other, err := n.acquire(t.Context(), "b"); err != nil {
		t.Errorf("another name: %v", err)
	} else {
		other()
	}
	waits, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	for range maxNameWaiters {
		go func() {
			_, err := n.acquire(waits, "a")
			ended <- err
		}()
	}
	isOfANode := func(err error) {
		t.Helper()
		if _, ok := errors.AsType[*NodeError](err); !ok || !errors.Is(err, errTurn) {
			t.Errorf("%v", err)
		}
	}
	redistest.Until(t, "all of them wait", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.busy["a"].waiting == maxNameWaiters
	})
	_, err = n.acquire(t.Context(), "a")
	isOfANode(err)
	stop()
	for range maxNameWaiters {
		isOfANode(<-ended)
	}
	done()
	if done, err = n.acquire(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	done()
	if len(n.busy) != 0 {
		t.Errorf("%d names are left", len(n.busy))
	}
}
