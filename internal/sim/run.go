package sim

import (
	"context"
	"math"
	"sync"
	"time"

	"aliquot/internal/sim/faults"
)

// Result is what a run came to. It is a function of the run's seed, length and
// options; the number of workers does not show.
type Result struct {
	Worlds  int           `json:"worlds"`
	Virtual time.Duration `json:"virtual_ns"`
	Events  int64         `json:"events"`
	// Faults are the single faults; Kinds counts these by their kind, and how often
	// steady trouble struck a message or a command (of drifting clocks: the worlds).
	Faults int64               `json:"faults"`
	Kinds  [faults.Count]int64 `json:"-"`
	// Decisions are requests decided, Local those of them that were admitted without the
	// store, Moves shares changed in a region's store, and Admitted whole tokens.
	Decisions int64 `json:"decisions"`
	Local     int64 `json:"local"`
	Moves     int64 `json:"share_moves"`
	Admitted  int64 `json:"admitted"`
	// Closest is the largest part of what a key was allowed from its beginning to
	// some instant that was admitted, in any world; BurstUsed the largest part of the
	// burst that was used beyond the rate over any interval. Above 1 a promise is
	// broken.
	Closest   float64 `json:"closest"`
	BurstUsed float64 `json:"burst_used"`
	// Violated counts worlds, Violations are the first of them.
	Violated   int          `json:"violations"`
	Violations []*Violation `json:"violated,omitempty"`
	// Hash is of everything that happened.
	Hash uint64 `json:"hash"`
}

// maxViolations bounds Result.Violations: one is worth more than many.
const maxViolations = 10

// Job is a run to be made: worlds of ten virtual minutes with the seeds from Seed
// upwards, until they add up to so many Hours.
type Job struct {
	Seed    uint64
	Hours   float64
	Workers int // worlds at a time; 0: one
	Options Options
	// Progress, if not nil, is called after each world with what there is so far, in
	// the order of the seeds.
	Progress func(Result)
}

// Worlds is how many worlds the job takes.
func (j *Job) Worlds() int {
	return int(math.Ceil(j.Hours * float64(time.Hour) / float64(worldSpan)))
}

// Run lives through the worlds. When ctx ends it finishes those under way and
// returns what it has. It is safe for concurrent use if Progress is.
func (j *Job) Run(ctx context.Context) Result {
	workers := max(j.Workers, 1)
	lived := make(chan livedWorld, workers)
	var wg sync.WaitGroup
	next := make(chan int)
	for range workers {
		wg.Go(func() {
			for i := range next {
				lived <- livedWorld{number: i, world: live(j.Seed+uint64(i), j.Options, worldSpan-recovery)}
			}
		})
	}
	go func() {
		defer func() {
			close(next)
			wg.Wait()
			close(lived)
		}()
		for i := range j.Worlds() {
			select {
			case next <- i:
			case <-ctx.Done():
				return
			}
		}
	}()
	return j.collect(lived)
}

type livedWorld struct {
	number int
	world  *world
}

// collect adds the worlds up in the order of their seeds.
func (j *Job) collect(lived <-chan livedWorld) Result {
	var r Result
	early := map[int]*world{}
	for l := range lived {
		early[l.number] = l.world
		for w := early[r.Worlds]; w != nil; w = early[r.Worlds] {
			delete(early, r.Worlds)
			r.add(w)
			if j.Progress != nil {
				j.Progress(r)
			}
		}
	}
	return r
}

func (r *Result) add(w *world) {
	r.Worlds++
	r.Virtual += duration(w.Now())
	r.Events += w.Events()
	r.Faults += w.faulted
	r.Decisions += w.Decisions
	r.Local += w.Chunked
	r.Moves += w.Moves
	r.Admitted += w.admitted
	for f, n := range w.Faults.Caused {
		r.Kinds[f] += n
	}
	if w.Faults.Kinds[faults.Drifting] {
		r.Kinds[faults.Drifting]++
	}
	for _, x := range w.Rules {
		r.Closest = max(r.Closest, x.Ideal.Closest())
		r.BurstUsed = max(r.BurstUsed, x.Ideal.BurstUsed())
	}
	r.Hash = r.Hash*31 + w.Hash()
	if w.failure == nil {
		return
	}
	r.Violated++
	if len(r.Violations) < maxViolations {
		w.failure.Trace = w.lines()
		r.Violations = append(r.Violations, w.failure)
	}
}
