package store

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"aliquot/limit"
)

// clockFresh is how long, in microseconds, a reading of a node's clock is preferred to a less exact
// one. It is short enough for drift not to matter.
const clockFresh = 1_000_000

const (
	// maxApart is how far apart the nodes' clocks may seem, in microseconds, before all are read again. It
	// is well below the time that a call has, so that few calls are late for what only seems so.
	maxApart = 100_000
	// readClocksEvery is the minimum interval between these readings.
	readClocksEvery = 200 * time.Millisecond
	// clockTries is how often a node is asked for its clock while its answers take longer than maxApart.
	clockTries = 3
)

// nodeClock bounds how far a node's clock is ahead of this process's clock: between low and high, in
// microseconds. The zero value knows nothing. Safe for concurrent use.
type nodeClock struct {
	mu            sync.Mutex
	low, high, at int64
	known         bool
}

// add takes a reading: the node's clock was now at some time between sent and received.
func (c *nodeClock) add(now, sent, received int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	low, high := now-received, now-sent
	if c.known && high-low > c.high-c.low && received-c.at < clockFresh && low <= c.high && high >= c.low {
		return // less exact, and consistent with the known bounds
	}
	c.low, c.high, c.at, c.known = low, high, received, true
}

// forget drops all readings.
func (c *nodeClock) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = false
}

// bounds returns the bounds. known is false before the first reading.
func (c *nodeClock) bounds() (low, high int64, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.low, c.high, c.known
}

// readClock takes a reading of the node's clock from a script's reply. The clock comes first, or second
// after the code of a call that was too late.
func (n *nodes) readClock(j *job, reply []any) {
	if len(reply) == 0 {
		return
	}
	now, ok := reply[0].(int64)
	if ok && now < 0 && len(reply) == 2 {
		now, ok = reply[1].(int64)
	}
	if ok && now > 0 {
		j.by.clock.add(now, j.sent, j.received)
	}
}

// askClock asks a node for its clock. It asks again if the answer took too long to bound it well.
func (s *Cluster) askClock(ctx context.Context, to *node) (now int64, err error) {
	for range clockTries {
		sent := s.nodes.localTime()
		clock, err := to.queries.Time(ctx).Result()
		if err != nil {
			return 0, err
		}
		received := s.nodes.localTime()
		now = clock.UnixMicro()
		to.clock.add(now, sent, received)
		if received-sent <= maxApart {
			break
		}
	}
	return now, nil
}

// checkClock returns an error if a node's clock is not known, because no view is made correct for that node then.
// It asks the node for its clock, and makes the callers learn the contents and build new views.
func (s *Cluster) checkClock(ctx context.Context, to *node) error {
	if _, _, known := to.clock.bounds(); known {
		return nil
	}
	if _, err := s.askClock(ctx, to); err != nil {
		return fmt.Errorf("%w: the node's clock is not known: %w", errNotBegun, err)
	}
	s.nodes.unvouched.Store(true)
	return errUnvouched
}

// readClocksSoon asks all nodes for their clocks in the background, one at a time and at most once every
// readClocksEvery. The clock of a node that got no calls lately may be known from before all clocks were set.
func (s *Cluster) readClocksSoon() {
	n := s.nodes
	n.mu.Lock()
	due := !n.readingClocks && !n.closed && time.Since(n.clocksRead) >= readClocksEvery
	var asked []*node
	if due {
		n.readingClocks = true
		for _, one := range n.known {
			if !one.breaker.Open() {
				asked = append(asked, one)
			}
		}
	}
	n.mu.Unlock()
	if !due {
		return
	}
	s.background.Go(func() {
		for _, one := range asked {
			err := safely(s.log, "a question for the clock", func() error {
				ctx, cancel := context.WithTimeout(s.ctx, s.callTimeout)
				defer cancel()
				_, err := s.askClock(ctx, one)
				return err
			})
			if err != nil {
				s.tryUntilWell(one) // its clock ceases to count once its breaker opens, or at once if it has no slot
			}
		}
		n.mu.Lock()
		n.readingClocks, n.clocksRead = false, time.Now()
		n.mu.Unlock()
	})
}

// clockBounds bounds how far the clocks of all nodes that get calls are ahead of this process's clock, in
// microseconds. known is false before the first reading. A node whose clock is not known gets no calls; see
// Cluster.checkClock.
func (n *nodes) clockBounds() (low, high int64, known bool) {
	low, high = math.MaxInt64, math.MinInt64
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, one := range n.known {
		if l, h, ok := one.clock.bounds(); ok && !one.breaker.Open() {
			low, high, known = min(low, l), max(high, h), true
		}
	}
	return low, high, known
}

// shift makes a view correct for any node. The caller read the clock of one node, and the other
// clocks may be ahead of it or behind it by up to apart. So each end moves earlier by apart, and
// each beginning moves later by it.
func shift(v *limit.View, apart int64) {
	v.Until = max(0, v.Until-apart)
	v.Since = later(v.Since, apart)
	v.FloorSince = later(v.FloorSince, apart)
	v.Birth = later(v.Birth, apart)
	if v.Deadline != 0 {
		v.Deadline = max(1, v.Deadline-apart)
	}
}

// later returns an instant moved later by some microseconds. 0 stays 0, because it means that there
// is no instant.
func later(at, by int64) int64 {
	if at == 0 {
		return 0
	}
	return min(at+by, limit.MaxExact)
}
