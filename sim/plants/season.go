package plants

import (
	"context"
	"sync"
	"time"
)

// harmlessFor is how long a plant that should break nothing is watched.
const harmlessFor = 5 * time.Second

// Season tries many plants, a few at a time.
type Season struct {
	Bench *Bench
	Known map[string]Sighting
	// Limit for each plant; Jobs at once.
	Limit time.Duration
	Jobs  int
}

// Try tries plants and hands out every verdict, in the order of the plants, as soon
// as it and all before it are there.
func (s *Season) Try(ctx context.Context, plants []Plant, each func(Verdict, error)) {
	type outcome struct {
		verdict Verdict
		err     error
	}
	outcomes := make([]chan outcome, len(plants))
	for i := range outcomes {
		outcomes[i] = make(chan outcome, 1)
	}
	next := make(chan int)
	var wg sync.WaitGroup
	for range s.Jobs {
		wg.Go(func() {
			for i := range next {
				v, err := s.one(ctx, plants[i])
				outcomes[i] <- outcome{v, err}
			}
		})
	}
	wg.Go(func() {
		defer close(next)
		for i := range plants {
			next <- i
		}
	})
	for i := range plants {
		o := <-outcomes[i]
		each(o.verdict, o.err)
	}
	wg.Wait()
}

func (s *Season) one(ctx context.Context, p Plant) (Verdict, error) {
	limit := s.Limit
	if p.Harmless != "" {
		limit = min(limit, harmlessFor)
	}
	// A plant can hang what it breaks; the machine may have other things to do.
	ctx, cancel := context.WithTimeout(ctx, 4*limit+Patience)
	defer cancel()
	return s.Bench.Simulate(ctx, p, max(s.Known[p.Name].Seed, 1), limit)
}

// AsExpected reports whether a plant was caught, or, if it is said to break nothing,
// was not.
func (v *Verdict) AsExpected() bool { return v.Caught == (v.Plant.Harmless == "") }
