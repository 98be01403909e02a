package compare

import (
	"math"
	"math/rand/v2"
	"time"
)

// batchEvery is for how long requests of an even stream are gathered, half more or less.
const batchEvery = 5 * time.Millisecond

// start lets a source ask until it ends.
func (r *run) start(s Source, rng *rand.Rand) {
	if s.Until == 0 {
		s.Until = r.load.Length
	}
	f := &feed{run: r, source: s, rng: rng, region: s.Region}
	r.world.After(s.From, f.next)
}

// feed is a source under way.
type feed struct {
	run    *run
	source Source
	rng    *rand.Rand
	region int     // of the next request
	due    float64 // requests of an even stream that have not been sent
}

// next sends what is due and plans the next sending.
func (f *feed) next() {
	s, now := &f.source, f.run.now()
	if now >= s.Until {
		return
	}
	if s.On > 0 {
		if into := (now - s.From) % (s.On + s.Off); into >= s.On {
			f.run.world.After(s.On+s.Off-into, f.next)
			return
		}
	}
	if s.Random {
		f.poisson()
		return
	}
	// Two streams must not run in step, or one is always first at the next token.
	wait := time.Duration((.5 + f.rng.Float64()) * float64(max(batchEvery, time.Duration(float64(time.Second)/s.Rate))))
	f.due += s.Rate * wait.Seconds()
	n := int(f.due)
	f.due -= float64(n)
	f.send(n)
	f.run.world.After(wait, f.next)
}

// poisson sends one request now and plans the next at an exponential distance.
func (f *feed) poisson() {
	if f.run.now() > f.source.From { // the first one is planned, not sent
		f.send(1)
	}
	gap := -math.Log(1-f.rng.Float64()) / f.source.Rate
	f.run.world.After(max(time.Duration(gap*float64(time.Second)), 1), f.next)
}

// send makes n requests, in one region or each in the next one.
func (f *feed) send(n int) {
	if !f.source.Rotating {
		f.run.ask(f.region, f.source.Key, n)
		return
	}
	counts := make([]int, len(f.run.load.RTTs))
	for range n {
		counts[f.region]++
		f.region = (f.region + 1) % len(counts)
	}
	for i := range counts {
		region := (f.region + i) % len(counts)
		f.run.ask(region, f.source.Key, counts[region])
	}
}
