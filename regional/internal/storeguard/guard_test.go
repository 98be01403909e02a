package storeguard

import (
	"errors"
	"testing"
)

// The bound on the calls under way counts calls. Each call that a waiting daemon refused lowered the count, so that
// after a second of traffic there was no bound any more.
func TestARefusedCallIsNotUnderWay(t *testing.T) {
	t.Parallel()
	g := &Guard{spends: func() bool { return false }}
	for range 3 {
		if err := g.Call(t.Context(), "take", "", nil); !errors.Is(err, errMayNotSpend) {
			t.Fatalf("a call of a daemon that waits: %v", err)
		}
	}
	if n := g.inFlight.Load(); n != 0 {
		t.Errorf("%d calls are under way after three that were refused", n)
	}
}
