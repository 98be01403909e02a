package compare

import (
	"time"

	"aliquot/limit"
	"aliquot/sim"
)

// leases is fixed windows whose tokens a coordinator hands out in chunks, which are
// good until the window ends: the scheme of federated quota servers (Doorman leases
// capacity, ThrottleKit's federation leases parts of a window from one Redis). A window
// of C tokens lasts C/r, so that rate and burst are the limit's. A region asks for
// the next chunk when half of one is left and denies what it has no tokens for. It
// never exceeds a window; around the end of one, two windows' tokens come together.
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
	id     int64
	left   int
	asking bool
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

func (l *leases) ask(region, key, n int, answer func(sim.Decided)) {
	inStore(l.w, answer, func(now time.Duration) int {
		c, w := &l.held[region][key], &l.windows[key]
		if id := int64(now / w.length); id != c.id {
			c.id, c.left = id, 0
		}
		admitted := min(n, c.left)
		c.left -= admitted
		if c.left <= w.size/2 {
			l.renew(region, key)
		}
		return admitted
	})
}

// renew asks the coordinator for a chunk; one request at a time.
func (l *leases) renew(region, key int) {
	c := &l.held[region][key]
	if c.asking || l.away[region] > 0 || l.down > 0 {
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
			switch {
			case n == 0:
			case id == c.id:
				c.left += n
				l.moved++
			case id > c.id:
				c.id, c.left = id, n
				l.moved++
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
func (l *leases) flush(region int) { clear(l.held[region]) }
