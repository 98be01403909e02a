package boottime

import (
	"sync/atomic"
	"time"

	"aliquot/budget"
)

const (
	// anchorFor is how long Go's clock continues a reading of the boot clock.
	anchorFor = 20 * time.Millisecond
	// slept is how far Go's two clocks may differ before the boot clock is read again: the machine
	// slept, or its clock was set.
	slept = time.Millisecond
	// anchorWithin is how long the reading of both clocks may take. anchorTries is how often a
	// reading that took longer is tried.
	anchorWithin = 20 * time.Microsecond
	anchorTries  = 4
)

// Clock reads the boot clock for callers that need it a million times a second. It makes a system
// call every anchorFor, and uses Go's own clock in between, which costs a tenth of that. A reading
// differs from Now by some tens of microseconds at most, and may go back by as much. The zero value
// is ready for use. Safe for concurrent use.
type Clock struct{ anchor atomic.Pointer[anchor] }

// anchor is one reading of both clocks.
type anchor struct {
	boot budget.Instant
	at   time.Time
}

// Read returns the time of the boot clock and of the wall clock.
func (c *Clock) Read() (budget.Instant, time.Time) {
	t := time.Now()
	if a := c.anchor.Load(); a != nil {
		if awake := t.Sub(a.at); holds(awake, time.Duration(t.UnixNano()-a.at.UnixNano())) {
			return a.boot.Add(awake), t
		}
	}
	return c.read()
}

// holds reports whether an anchor is still valid. awake is its age by Go's monotonic clock, which
// stops while the machine sleeps, and passed its age by the wall clock, which does not stop.
func holds(awake, passed time.Duration) bool {
	return awake < anchorFor && passed-awake < slept && awake-passed < slept
}

// read reads both clocks, and keeps the readings as the anchor if they took less than anchorWithin.
// With a thread that paused between the two readings the anchor would be late, and borrowed tokens
// would be spent after their end. Then there is no anchor.
func (c *Clock) read() (budget.Instant, time.Time) {
	var boot budget.Instant
	var t time.Time
	for range anchorTries {
		before := time.Now()
		boot = Now()
		if t = time.Now(); t.Sub(before) < anchorWithin {
			c.anchor.Store(&anchor{boot: boot, at: t})
			return boot, t
		}
	}
	c.anchor.Store(nil)
	return boot, t
}
