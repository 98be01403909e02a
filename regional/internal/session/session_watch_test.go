package session

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestOnlyTheDaemonWithTheSessionCountsAsWithoutOne: the second daemon of a region is heard, and has no session to lose.
func TestOnlyTheDaemonWithTheSessionCountsAsWithoutOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestSession(t, &lastHello{})
		s.watch.lost.Store(int64(second) / 4)
		if got := s.without(); got != 0 {
			t.Errorf("no coordinator has answered: without a session for %v", got)
		}
		s.peers.answered = time.Now()
		if got := s.without(); got != 750*time.Millisecond {
			t.Errorf("a coordinator has answered: without a session for %v, want 750ms", got)
		}
		s.second.Store(true)
		if got := s.without(); got != 0 {
			t.Errorf("another daemon has the session: without one for %v", got)
		}
	})
}
