package plants

import (
	"context"
	"sync"
	"time"
)

// harmlessFor is how much time of a core a plant that should break nothing is watched,
// by the simulator and by the checker.
const harmlessFor = 3 * time.Second

// Season tries many plants, a few at a time.
type Season struct {
	Bench *Bench
	Known map[string]Sighting
	// Limit for each plant, in the simulator and in the checker; Jobs at once.
	Limit time.Duration
	Jobs  int
	// Sim, Check and Tests say who looks; the tests only at what the others have not
	// caught. Hunt looks everywhere and not where a plant is known to be. Without it, who
	// has not caught a plant before is not asked again.
	Sim, Check, Tests, Hunt bool
}

// Verdict is what became of one plant.
type Verdict struct {
	Plant            Plant
	Sim, Check, Test Catch
}

// Caught reports whether anything was broken.
func (v *Verdict) Caught() bool { return v.Sim.Caught || v.Check.Caught || v.Test.Caught }

// AsExpected reports whether a plant was caught, or, if it is said to break nothing,
// was not.
func (v *Verdict) AsExpected() bool { return v.Caught() == (v.Plant.Harmless == "") }

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
	v, known, limit := Verdict{Plant: p}, s.Known[p.Name], s.Limit
	everywhere := s.Hunt
	if p.Harmless != "" {
		everywhere, known, limit = true, Sighting{}, min(limit, harmlessFor)
	}
	// A plant can hang what it breaks; the machine may have other things to do.
	ctx, cancel := context.WithTimeout(ctx, 8*limit+5*Patience)
	defer cancel()
	t, err := s.Bench.Plant(ctx, p)
	if err != nil {
		return v, err
	}
	defer t.Close()
	if s.Sim && (everywhere || known.Seed != 0) {
		seed := known.Seed
		if everywhere {
			seed = 1
		}
		if v.Sim, err = t.Simulate(ctx, seed, limit); err != nil {
			return v, err
		}
	}
	look := p.Scenarios
	if !everywhere {
		look = []string{known.Scenario}
	}
	if s.Check && len(look) > 0 && look[0] != "" {
		if v.Check, err = t.Check(ctx, look, limit); err != nil {
			return v, err
		}
	}
	if s.Tests && p.Harmless == "" && !v.Caught() && (everywhere || known.Test != "") {
		if everywhere {
			known.Test = ""
		}
		v.Test, err = t.Test(ctx, known.Test)
	}
	return v, err
}
