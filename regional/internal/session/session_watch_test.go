package session

import (
	"testing"
	"testing/synctest"
	"time"

	"aliquot/budget"
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

// TestASilentClusterIsNoFaultOfTheRegion: all coordinators stop, and the session is lost just after their last answer.
// The region stays ready, as it does later.
func TestASilentClusterIsNoFaultOfTheRegion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestSession(t, &lastHello{})
		s.watch.lost.Store(int64(second) - 11*int64(time.Second))
		s.peers.answered = time.Now().Add(-12 * time.Second)
		if got, why := s.without(), s.WithoutSession(budget.RegionInfo{}); got != 0 || why != "" {
			t.Errorf("the last answer came before the session was lost: without one for %v, %q", got, why)
		}
		s.peers.answered = time.Now().Add(-time.Second / 2)
		if got, why := s.without(), s.WithoutSession(budget.RegionInfo{}); got != 10500*time.Millisecond || why == "" {
			t.Errorf("a coordinator answers: without a session for %v, %q, want 10.5s", got, why)
		}
	})
}
