package boottime

import (
	"sync/atomic"
	"time"

	"aliquot/budget"
)

const (
	// anchorFor is how long a reading of the boot clock is carried on by Go's clock.
	anchorFor = 20 * time.Millisecond
	// slept is how far Go's two clocks may run apart before the boot clock is read
	// again: the machine slept, or its clock was set.
	slept = time.Millisecond
	// anchorWithin is how long reading both clocks may take for them to belong together.
	anchorWithin = 20 * time.Microsecond
	anchorTries  = 4
)

// Clock reads the boot clock for those who ask a million times a second: a system call
// now and then, and Go's own clock in between, which costs a tenth of it. Its reading is
// within some tens of microseconds of Now, and may step back by as much. The zero value
// is ready. Safe for concurrent use.
type Clock struct{ anchor atomic.Pointer[anchor] }

type anchor struct {
	boot budget.Instant
	at   time.Time
}

// Read is Now, and the wall clock's time.
func (c *Clock) Read() (budget.Instant, time.Time) {
	t := time.Now()
	if a := c.anchor.Load(); a != nil {
		if awake := t.Sub(a.at); holds(awake, time.Duration(t.UnixNano()-a.at.UnixNano())) {
			return a.boot.Add(awake), t
		}
	}
	return c.read()
}

// holds reports whether an anchor is good after a time, by Go's monotonic clock and by its
// wall clock. The former stands still while the machine sleeps; the latter does not, and
// shows that it did.
func holds(awake, passed time.Duration) bool {
	return awake < anchorFor && passed-awake < slept && awake-passed < slept
}

// read reads both clocks. A thread that is put aside between the two readings would make
// an anchor that is late, by which chunks would be spent after their end: no anchor is
// better than such a one.
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
