package coordinator_test

import (
	"sync"

	"aliquot/budget"
	"aliquot/internal/boottime"
)

// slowness is how much slower a slowable clock can run.
const slowness = 20

// slowable is the boot clock, which a test can slow down: what has to happen within seconds
// of each other does then, however slow the machine is.
type slowable struct {
	mu         sync.Mutex
	slowed     bool
	since, was budget.Instant // the boot clock when that last changed, and what this one said then
}

func newSlowable() *slowable {
	now := boottime.Now()
	return &slowable{since: now, was: now}
}

func (c *slowable) now() budget.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reading(boottime.Now())
}

func (c *slowable) reading(boot budget.Instant) budget.Instant {
	passed := boot.Sub(c.since)
	if c.slowed {
		passed /= slowness
	}
	return c.was.Add(passed)
}

// slow slows the clock down until end is called.
func (c *slowable) slow() (end func()) {
	c.set(true)
	return func() { c.set(false) }
}

func (c *slowable) set(slowed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	boot := boottime.Now()
	c.since, c.was, c.slowed = boot, c.reading(boot), slowed
}
