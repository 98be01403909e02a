package penalty

import (
	"time"

	"aliquot/budget"
)

// leastCoolDown is the shortest cool-down. The waits of limits with high rates are too short to begin
// with.
const leastCoolDown = 10 * time.Millisecond

// held returns how the client is held back at now. A cool-down or a block that the rule no longer
// states has ended.
func (c *client) held(t Terms, now budget.Instant) Hold {
	switch {
	case now < c.blocked && t.BlockAfter > 0:
		return Hold{State: Blocked, Until: c.blocked, For: c.span}
	case now < c.until && t.CoolAfter > 0:
		return Hold{State: Cooling, Until: max(c.told, c.until), For: c.length}
	}
	return Hold{}
}

// waited reports whether the client waited before a request that comes now: it was silent in the
// second half of the wait that it was told, or for as long at a later time.
func (c *client) waited(now budget.Instant) bool {
	return now >= c.told && (c.last <= c.told.Add(-c.wait/2) || now.Sub(c.last) >= c.wait)
}

// deny records a denial by the limit, and begins a cool-down after CoolAfter early requests.
func (c *client) deny(t Terms, wait time.Duration, now budget.Instant) Hold {
	told := now.Add(wait)
	if now < c.told {
		c.early++
		if told < c.told { // a cheaper request, or a limit that has grown
			c.told, c.wait = told, wait
		}
	} else {
		c.told, c.wait = told, wait
	}
	if t.CoolAfter == 0 || c.early < t.CoolAfter {
		return Hold{}
	}
	c.length = min(max(wait, 2*c.length, leastCoolDown), t.CoolMost)
	c.until, c.early = now.Add(c.length), 0
	c.told = max(c.told, c.until)
	c.wait = c.told.Sub(now)
	held := c.held(t, now)
	held.Began = true
	return held
}

// block begins a block, and forgets the denials and the cool-down before it.
func (c *client) block(t Terms, now budget.Instant) Hold {
	c.blocked, c.span = now.Add(t.BlockFor), t.BlockFor
	c.early, c.length, c.until = 0, 0, 0
	c.denials = recently{}
	return Hold{State: Blocked, Until: c.blocked, For: c.span, Began: true}
}

// quarters is the number of parts of BlockWithin that are counted separately.
const quarters = 4

// recently counts the denials of three to four quarters of BlockWithin. It never counts those of a
// longer time, so no client is blocked for fewer denials than the rule says.
type recently struct {
	from  budget.Instant // the latest quarter began here
	parts [quarters]int64
}

// add counts a denial, and reports whether there were enough for a block.
func (r *recently) add(t Terms, now budget.Instant) bool {
	if t.BlockAfter == 0 {
		return false
	}
	quarter := t.BlockWithin / quarters
	for steps := 0; now.Sub(r.from) >= quarter; steps++ {
		if steps == quarters {
			*r = recently{from: now}
			break
		}
		copy(r.parts[1:], r.parts[:quarters-1])
		r.parts[0] = 0
		r.from = r.from.Add(quarter)
	}
	r.parts[0]++
	total := int64(0)
	for _, n := range r.parts {
		total += n
	}
	return total >= t.BlockAfter
}
