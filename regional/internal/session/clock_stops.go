package session

import (
	"time"

	"aliquot/budget"
	"aliquot/internal/boottime"
)

// A machine that was paused may come back with clocks that stopped meanwhile. The leader's clock,
// the store's clock or the wall clock then shows the pause, provided that it ran on or was set
// right.

// compare takes a reading of the clock of a leader, which came in the answer to a call sent at
// sent; 0 is no reading. It must be called before the answer is used. A lease outlives its session,
// so readings of several sessions are compared.
func (s *Session) compare(leader uint64, shows int64, sent budget.Instant) {
	if shows == 0 {
		return
	}
	if stopped := s.reference.Read(leader, shows, sent, s.auth.Now(), int32(s.auth.Clock.Drift())); stopped > 0 {
		s.clockStopped("by the leader's clock", stopped)
	}
}

// sameInstant is the maximum time between readings of two clocks that count as simultaneous.
const sameInstant = time.Millisecond

// watchWall compares the wall clock with the boot clock.
func (s *Session) watchWall() {
	if s.wall == nil {
		return
	}
	before := time.Now()
	boot := s.auth.Now()
	if wall := time.Now(); wall.Sub(before) < sameInstant {
		if stepped := s.wall.Read(boot, wall); stepped > 0 {
			s.clockStopped("by the wall clock, which was set forward", stepped)
		}
	}
}

// clockStopped gives up the session and its lease, because this machine's clock has measured the
// lease.
func (s *Session) clockStopped(by string, stopped time.Duration) {
	s.log.Warn("this machine's clock was stopped, as that of a paused virtual machine does; the lease is given up", "seen", by, "for_at_least", stopped)
	s.emergency.ClockStopped()
	s.auth.Post(budget.ClockStopped{})
}

// newWall returns a wall clock to watch if the daemon uses this machine's boot clock, and nil
// otherwise.
func newWall(bootClock bool) *boottime.Wall {
	if !bootClock {
		return nil
	}
	return &boottime.Wall{}
}
