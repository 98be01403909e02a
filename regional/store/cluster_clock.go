package store

import (
	"math"
	"sync"

	"aliquot/limit"
)

// clockFresh is how long a reading of a node's clock is preferred to a less exact one,
// microseconds: so long that drift does not matter.
const clockFresh = 1_000_000

// nodeClock is what is known of a node's clock: how far ahead of this process's it is, at
// least and at most, microseconds. The zero value knows nothing.
type nodeClock struct {
	mu              sync.Mutex
	least, most, at int64
	known           bool
}

// add takes a reading: the node's clock was now somewhere between sent and received.
func (c *nodeClock) add(now, sent, received int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	least, most := now-received, now-sent
	if c.known && most-least > c.most-c.least && received-c.at < clockFresh && least <= c.most && most >= c.least {
		return // less exact, and no contradiction
	}
	c.least, c.most, c.at, c.known = least, most, received, true
}

func (c *nodeClock) bounds() (least, most int64, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.least, c.most, c.known
}

// read takes the clock off a script's reply.
func (n *nodes) read(j *job, reply []any) {
	if len(reply) == 0 {
		return
	}
	if now, ok := reply[0].(int64); ok && now > 0 {
		j.by.clock.add(now, j.sent, j.received)
	}
}

// clocks are the bounds of how far the clocks of all nodes are ahead of this process's;
// false without a reading.
func (n *nodes) clocks() (least, most int64, known bool) {
	least, most = math.MaxInt64, math.MinInt64
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, one := range n.known {
		if low, high, ok := one.clock.bounds(); ok {
			least, most, known = min(least, low), max(most, high), true
		}
	}
	return least, most, known
}

// shift words a view for any node: the caller read the clock of some node, and the others
// may be as much ahead of it or behind it as all clocks are apart. What ends ends earlier,
// and what begins begins later.
func shift(v *limit.View, apart int64) {
	v.Until = max(0, v.Until-apart)
	v.Since = later(v.Since, apart)
	v.FloorSince = later(v.FloorSince, apart)
	v.Birth = later(v.Birth, apart)
	if v.Deadline != 0 {
		v.Deadline = max(1, v.Deadline-apart)
	}
}

// later moves an instant; 0 stays, for it says that there is none.
func later(at, by int64) int64 {
	if at == 0 {
		return 0
	}
	return min(at+by, limit.MaxExact)
}
