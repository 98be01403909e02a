package plants

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// harmlessFor is how much time of a core a plant that should break nothing is watched,
// by the simulator and by the checker.
const harmlessFor = 3 * time.Second

// testedFor is how much time of a core a plant is looked for, in worlds and in scenarios,
// that a test sees as well: when worlds have changed and its seed with them, the test is
// the shorter way.
const testedFor = 10 * time.Second

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

// errand is what to try of one plant: with which seed to begin (0: not in the
// simulator), in which scenarios to search, and whether to run tests, and which.
type errand struct {
	seed      uint64
	scenarios []string
	tests     bool
	test      string
	limit     time.Duration
}

// errand is to look where a plant is known to be, or everywhere: on a hunt, and for
// what breaks nothing by its description, wherever that is.
func (s *Season) errand(p Plant) errand {
	known := s.Known[p.Name]
	e := errand{seed: known.Seed, tests: known.Test != "", test: known.Test, limit: s.Limit}
	if known.Scenario != "" {
		e.scenarios = []string{known.Scenario}
	}
	if e.tests {
		e.limit = min(s.Limit, testedFor)
	}
	switch {
	case p.Harmless != "": // tests may look at what is not promised
		e = errand{seed: 1, scenarios: p.Scenarios, limit: min(s.Limit, harmlessFor)}
	case s.Hunt:
		e = errand{seed: 1, scenarios: p.Scenarios, tests: true, limit: s.Limit}
	}
	if !s.Sim {
		e.seed = 0
	}
	if !s.Check {
		e.scenarios = nil
	}
	e.tests = e.tests && s.Tests
	return e
}

func (s *Season) one(ctx context.Context, p Plant) (Verdict, error) {
	v, e := Verdict{Plant: p}, s.errand(p)
	// A plant can hang what it breaks; the machine may have other things to do.
	ctx, cancel := context.WithTimeout(ctx, 8*e.limit+5*Patience)
	defer cancel()
	t, err := s.Bench.Plant(ctx, p)
	if err != nil {
		return v, err
	}
	defer t.Close()
	if e.seed != 0 {
		v.Sim, err = t.Simulate(ctx, e.seed, e.limit)
	}
	if err == nil && len(e.scenarios) > 0 {
		v.Check, err = t.Check(ctx, e.scenarios, e.limit)
	}
	if err == nil && e.tests && !v.Caught() {
		v.Test, err = t.Test(ctx, e.test)
	}
	if err != nil {
		err = fmt.Errorf("plant %s: %w", p.Name, err)
	}
	return v, err
}
