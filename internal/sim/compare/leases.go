package compare

import (
	"time"

	"aliquot/internal/sim"
	"aliquot/internal/sim/site"
	"aliquot/limit"
)

// leases is fixed windows whose tokens a coordinator hands out in chunks, which are
// good until the window ends: the scheme of federated quota servers (Doorman leases
// capacity, ThrottleKit's federation leases parts of a window from one Redis). A window
// of C tokens lasts C/r, so that rate and burst are the limit's. A region asks for
// the next chunk when half of one is left; a request for which it has no token waits
// for the answer, across the WAN. It never exceeds a window; around the end of one, two
// windows' tokens come together. All clocks agree on when a window ends.
type leases struct {
	w       *sim.Driven
	windows []window  // by key, at the coordinator
	held    [][]chunk // by region, by key
	away    []int
	down    int
	moved   int64
}

// window is what the coordinator has left of the present one.
type window struct {
	length time.Duration
	most   int
	size   int // of a chunk
	id     int64
	left   int
}

// chunk is what a region holds of one window.
type chunk struct {
	id      int64
	left    int
	dry     bool // the coordinator has nothing more to give in this window
	asking  bool
	waiting []parked
}

// parked are requests that wait for a chunk.
type parked struct {
	n, admitted int
	answer      func(site.Decided)
}

// chunks is in how many parts a window is handed out: small enough to follow the
// demand, large enough that a round trip's use is covered.
const chunks = 20

func newLeases(w *sim.Driven, load *Workload) limiter {
	l := &leases{w: w, away: make([]int, len(load.RTTs))}
	for k := range load.Keys {
		lim := load.limitOf(k)
		most := int(lim.Capacity / limit.Token)
		l.windows = append(l.windows, window{
			length: timeToEarn(lim), most: most, left: most, size: max(1, most/chunks),
		})
	}
	for range load.RTTs {
		l.held = append(l.held, make([]chunk, len(load.Keys)))
	}
	return l
}

// roll begins the window of an instant.
func (w *window) roll(now time.Duration) {
	if id := int64(now / w.length); id != w.id {
		w.id, w.left = id, w.most
	}
}

func (l *leases) ask(region, key, n int, answer func(site.Decided)) {
	l.w.After(l.w.Store(), func() {
		c, w := &l.held[region][key], &l.windows[key]
		c.roll(int64(l.w.Now() / w.length))
		if c.pending() >= w.size {
			l.w.After(l.w.Store(), func() { answer(site.Decided{At: l.w.Now()}) })
			return
		}
		c.waiting = append(c.waiting, parked{n: n, answer: answer})
		l.serve(c)
		if c.left <= w.size/2 && !c.dry && !c.asking {
			l.renew(region, key)
		}
	})
}

// roll drops what is left of an earlier window.
func (c *chunk) roll(id int64) {
	if id != c.id {
		c.id, c.left, c.dry = id, 0, false
	}
}

// pending is how many requests wait: no more than a chunk could serve.
func (c *chunk) pending() int {
	n := 0
	for _, p := range c.waiting {
		n += p.n - p.admitted
	}
	return n
}

// serve decides the requests that need not wait.
func (l *leases) serve(c *chunk) {
	for len(c.waiting) > 0 {
		p := &c.waiting[0]
		admitted := min(p.n-p.admitted, c.left)
		c.left -= admitted
		p.admitted += admitted
		if p.admitted < p.n && !c.dry {
			return
		}
		d, answer := site.Decided{Admitted: p.admitted, At: l.w.Now()}, p.answer
		c.waiting = c.waiting[1:]
		l.w.After(l.w.Store(), func() { answer(d) })
	}
}

// renew asks the coordinator for a chunk; one request at a time. Who cannot reach it
// denies what it has no tokens for.
func (l *leases) renew(region, key int) {
	c := &l.held[region][key]
	if l.away[region] > 0 || l.down > 0 {
		c.dry = true
		l.serve(c)
		return
	}
	c.asking = true
	l.w.After(l.w.WAN(region), func() {
		w := &l.windows[key]
		w.roll(l.w.Now())
		id, n := w.id, min(w.size, w.left)
		w.left -= n
		l.w.After(l.w.WAN(region), func() {
			c.asking = false
			c.roll(int64(l.w.Now() / w.length))
			if id == c.id {
				c.left += n
				c.dry = n == 0
			}
			if n > 0 {
				l.moved++
			}
			l.serve(c)
			if len(c.waiting) > 0 {
				l.renew(region, key)
			}
		})
	})
}

func (l *leases) moves() int64 { return l.moved }

func (l *leases) cut(region int, length time.Duration) {
	l.away[region]++
	l.w.After(length, func() { l.away[region]-- })
}

func (l *leases) killLeader(length time.Duration) {
	l.down++
	l.w.After(length, func() { l.down-- })
}

// flush loses a region's chunks.
func (l *leases) flush(region int) {
	for k := range l.held[region] {
		l.held[region][k].left = 0
	}
}
