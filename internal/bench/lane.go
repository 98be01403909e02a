package bench

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// slot is one client's place in a lane with the counters of the requests sent
// from there. Only the lane's worker touches it during a run.
type slot struct {
	client uint32

	answered, admitted         int64 // checks with an answer; those allowed
	lateAnswered, lateAdmitted int64 // of them those sent after the warm-up
	firstSent, lastReceived    time.Duration
}

// lane is a group of requests that are always sent together, in one call, to one
// region after another. One worker owns it.
type lane struct {
	index    int
	slots    []*slot
	requests []*aliquotv1.CheckRequest
	home     int           // region of a client that stays
	turn     int           // calls sent so far
	period   time.Duration // from one call to the next; 0 without pacing
	due      time.Duration // when the next call is to be sent
}

// region is where the lane's next call goes.
func (l *lane) region(c *Config, now time.Duration, rng *rand.Rand) int {
	n := len(c.Regions)
	switch c.Pattern {
	case Random:
		return rng.IntN(n)
	case Stay:
		return l.home
	case Dwell:
		return (int(now/c.Dwell) + l.home) % n
	default:
		return (l.turn + l.index) % n
	}
}

// advance plans the call after the one just sent. A lane that fell behind by more
// than a period does not catch up: it would send a burst that was not asked for.
func (l *lane) advance(now time.Duration) {
	l.turn++
	l.due = max(l.due+l.period, now-l.period)
}

// plan makes the lanes and deals them to the workers. Few clients get several
// lanes each, whose calls are full of their requests; many clients have one place
// each.
func plan(c *Config, run string) [][]*lane {
	workers := c.workers()
	lanes, copies := (c.Clients+c.Batch-1)/c.Batch, 1
	few, places := c.Clients <= workers, 1
	if few {
		lanes, places = workers/c.Clients*c.Clients, c.Batch
		copies = lanes / c.Clients * places
	}
	out := make([][]*lane, min(workers, lanes))
	for i := range lanes {
		l := &lane{index: i, home: i % len(c.Regions)}
		first, last := i*c.Batch, min((i+1)*c.Batch, c.Clients)
		if few {
			first, last = i%c.Clients, i%c.Clients+1
			l.home = first % len(c.Regions) // a client's lanes stay together
		}
		for client := first; client < last; client++ {
			l.place(request(c, run, client), client, places)
		}
		if c.Rate > 0 {
			l.period = time.Duration(float64(copies) / c.Rate * float64(time.Second))
			l.due = l.period * time.Duration(i) / time.Duration(lanes)
		}
		out[i%len(out)] = append(out[i%len(out)], l)
	}
	return out
}

// place gives a client that many places in the lane.
func (l *lane) place(r *aliquotv1.CheckRequest, client, places int) {
	for range places {
		l.slots = append(l.slots, &slot{client: uint32(client)})
		l.requests = append(l.requests, r)
	}
}

// request is what a client always sends.
func request(c *Config, run string, client int) *aliquotv1.CheckRequest {
	fill := strings.NewReplacer("{run}", run, "{client}", strconv.Itoa(client))
	attributes := make(map[string]string, len(c.Attributes))
	for name, value := range c.Attributes {
		attributes[name] = fill.Replace(value)
	}
	return &aliquotv1.CheckRequest{Attributes: attributes, Namespace: c.Namespace}
}
