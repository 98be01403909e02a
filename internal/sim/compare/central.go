package compare

import (
	"time"

	"aliquot/internal/sim"
	"aliquot/internal/sim/site"
)

// central is one store for the whole world, beside the coordinators: every request
// crosses the WAN to it and back, as with one Redis that the limiters of all regions
// use. It is exact. A region that cannot reach it, or does not get an answer in time,
// has to admit everything (open) or nothing (closed).
type central struct {
	w       *sim.Driven
	buckets []*bucket
	open    bool
	away    []int // by region: cuts under way
	down    int   // the store itself
}

// giveUp is how long a region waits for the store before it decides alone.
const giveUp = 500 * time.Millisecond

func newCentral(w *sim.Driven, load *Workload, open bool) limiter {
	return &central{w: w, buckets: idealOf(w, load).buckets, open: open, away: make([]int, len(load.RTTs))}
}

func newCentralOpen(w *sim.Driven, load *Workload) limiter   { return newCentral(w, load, true) }
func newCentralClosed(w *sim.Driven, load *Workload) limiter { return newCentral(w, load, false) }

func (c *central) ask(region, key, n int, answer func(site.Decided)) {
	if c.away[region] > 0 || c.down > 0 {
		c.w.After(giveUp, func() {
			d := site.Decided{At: c.w.Now()}
			if c.open {
				d.Admitted = n
			}
			answer(d)
		})
		return
	}
	c.w.After(c.w.WAN(region), func() {
		inStore(c.w, func(d site.Decided) {
			c.w.After(c.w.WAN(region), func() { answer(d) })
		}, func() int { return c.buckets[key].take(n, c.w.Now()) })
	})
}

func (c *central) moves() int64 { return 0 }

func (c *central) cut(region int, length time.Duration) {
	c.away[region]++
	c.w.After(length, func() { c.away[region]-- })
}

// killLeader is a failover of the store: for a while nobody reaches it.
func (c *central) killLeader(length time.Duration) {
	c.down++
	c.w.After(length, func() { c.down-- })
}

// flush loses the one store, whichever region is named.
func (c *central) flush(int) {
	for _, b := range c.buckets {
		b.forget()
	}
}
