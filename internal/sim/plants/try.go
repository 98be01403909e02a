package plants

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Patience is how much time of a core a plant may take to be caught.
const Patience = 60 * time.Second

// Catch is what became of one plant in the simulator, in the checker or in the
// packages' own tests.
type Catch struct {
	Tried  bool          `json:"tried"`
	Caught bool          `json:"caught"`
	What   string        `json:"broken,omitempty"`
	Worked time.Duration `json:"worked_ns"` // time of a core that it took, without the build
	// Of the simulator: the world that was broken, how many were lived through, and
	// when in the life of that one.
	Seed    uint64        `json:"seed,omitempty"`
	Worlds  int           `json:"worlds,omitempty"`
	Virtual time.Duration `json:"virtual_ns,omitempty"`
	// Of the checker: the scenario, the states searched in it, and the events on the
	// path.
	Scenario string `json:"scenario,omitempty"`
	States   int    `json:"states,omitempty"`
	Events   int    `json:"events,omitempty"`
	// Of the packages' own tests: the package and the test.
	Test string `json:"test,omitempty"`
}

// sighting is what a worker prints.
type sighting struct {
	What     string `json:"what"`
	Worked   int64  `json:"worked_ms"`
	Seed     uint64 `json:"seed"`
	Worlds   int    `json:"worlds"`
	At       int64  `json:"at_ms"`
	Scenario string `json:"scenario"`
	States   int    `json:"states"`
	Events   int    `json:"events"`
}

// Trial is one plant, compiled.
type Trial struct {
	bench           *Bench
	plant           Plant
	worker, overlay string
}

// Plant compiles a plant. The trial has to be closed.
func (b *Bench) Plant(ctx context.Context, p Plant) (*Trial, error) {
	worker, overlay, err := b.build(ctx, p)
	return &Trial{bench: b, plant: p, worker: worker, overlay: overlay}, err
}

// Close removes what was compiled.
func (t *Trial) Close() { os.RemoveAll(filepath.Dir(t.worker)) }

func (b *Bench) ask(ctx context.Context, worker string, args ...string) (sighting, error) {
	var s sighting
	out, err := b.output(ctx, worker, args...)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(out, &s)
}

func (b *Bench) live(ctx context.Context, worker string, seed uint64, w World, flags ...string) (sighting, error) {
	return b.ask(ctx, worker, append([]string{
		"-seed", strconv.FormatUint(seed, 10), "-regions", strconv.Itoa(w.Regions), "-keys", strconv.Itoa(w.Keys),
		"-faults", strings.Join(w.Faults, ","), fmt.Sprintf("-just=%t", w.Just),
		"-lease", w.Lease.String(), "-rho", strconv.Itoa(w.RhoPPM), "-burst", strconv.Itoa(w.Burst), "-rate", strconv.Itoa(w.Rate),
		"-algorithms", strings.Join(w.Algorithms, ","), fmt.Sprintf("-chunks=%t", w.Chunks),
	}, flags...)...)
}

// Simulate looks for a world that the plant breaks and that is whole without it, from a
// seed upwards and for at most the given time of a core.
func (t *Trial) Simulate(ctx context.Context, seed uint64, limit time.Duration) (Catch, error) {
	c := Catch{Tried: true}
	for c.Worked < limit {
		s, err := t.bench.live(ctx, t.worker, seed, t.plant.World, "-for", (limit - c.Worked).String())
		if err != nil {
			return c, err
		}
		c.Worked += time.Duration(s.Worked) * time.Millisecond
		c.Worlds += s.Worlds
		if s.What == "" {
			return c, nil
		}
		clean, err := t.bench.live(ctx, t.bench.whole, s.Seed, t.plant.World, "-worlds", "1")
		if err != nil {
			return c, err
		}
		if clean.What == "" {
			c.Caught, c.Seed, c.What = true, s.Seed, s.What
			c.Virtual = time.Duration(s.At) * time.Millisecond
			return c, nil
		}
		seed = s.Seed + 1
	}
	return c, nil
}

// Check looks for a scenario of the exhaustive checker, among some, in which the plant
// breaks a promise, and makes sure that the whole code breaks none in as many states.
func (t *Trial) Check(ctx context.Context, scenarios []string, limit time.Duration) (Catch, error) {
	c := Catch{Tried: true}
	s, err := t.bench.ask(ctx, t.worker, "-check", "-scenarios", strings.Join(scenarios, ","), "-for", limit.String())
	if err != nil {
		return c, err
	}
	c.Worked = time.Duration(s.Worked) * time.Millisecond
	if s.What == "" {
		return c, nil
	}
	c.What, c.Scenario, c.States, c.Events = s.What, s.Scenario, s.States, s.Events
	clean, err := t.bench.ask(ctx, t.bench.whole, "-check", "-scenarios", s.Scenario, "-states", strconv.Itoa(max(s.States, 1))) // none: on the way to where the search begins
	c.Caught = clean.What == ""
	return c, err
}
