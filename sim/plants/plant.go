// Package plants breaks the budget protocol on purpose, one rule at a time, to show
// that the simulator and the exhaustive checker would see it. A plant is a change of
// the source: the code that ships has no hook for it. The changed copy is compiled
// beside the rest of the module (go build -overlay), runs the same worlds as the
// whole code does, and has to break a promise in one that is whole without it.
//
// The catalogue is in the files list_*.go; known.json remembers where each plant was
// last seen; docs/planted-bugs.md is the table.
package plants

import (
	"fmt"
	"time"
)

// Plant is one bug to be put in.
type Plant struct {
	// Name is short, in lower case with dashes.
	Name string
	// Breaks says what the code does wrong with it.
	Breaks string
	// Edits are applied together.
	Edits []Edit
	// World is where the simulator looks for it.
	World World
	// Scenarios are those of the checker that have to do with it. Empty: with what it
	// breaks the checker has nothing to do, such as changes of floors.
	Scenarios []string
	// Harmless is the argument why it breaks nothing; then it is an error if it
	// does. Empty for all others, which have to be caught.
	Harmless string
}

// Edit replaces one piece of a file by another.
type Edit struct {
	File string // from the root of the module, with slashes
	Old  string // stands in File exactly once
	New  string
}

// World says in which worlds of the simulator to look for a plant. The zero value is
// any world.
type World struct {
	Regions, Keys int      // 0: as the seed draws
	Faults        []string // kinds that every world has, by sim.FaultName
	Just          bool     // and no others
	Lease         time.Duration
	RhoPPM        int // 0, as a Lease of 0: as the seed draws
	// Burst and Rate are a strict limit of every key, whole tokens; 0: as the seed draws.
	Burst, Rate int
}

// All is the whole catalogue, in the order of the table.
func All() []Plant {
	var all []Plant
	for _, part := range []struct {
		plants    []Plant
		scenarios []string
	}{
		{leases(), []string{"lent", "lent-greedy", "lent-3", "deposed", "cut-off", "cut-off-torn", "stuck", "nobody-leads"}},
		{ledgers(), []string{"cold", "lent-order", "lent-greedy", "lent-3", "new-leader", "cut-off-3", "deposed-3"}},
		{leaders(), []string{"lent", "new-leader", "deposed", "cut-off", "twins", "cooling"}},
		{regions(), []string{"lent-order", "deposed-amnesia", "flush-lost", "twins", "twins-cut", "stuck"}},
		{tokens(), []string{"cold", "lent-greedy", "new-leader", "cut-off", "cooling", "elastic"}},
		{memory(), []string{"flush", "flush-cut", "roll-back", "cooling", "cooling-flush", "stuck-flush", "twins"}},
		{plants: floors()}, {plants: timing()}, {plants: counted()},
		{elastic(), []string{"elastic", "elastic-cooling", "elastic-3"}},
		{fairness(), []string{"lent", "new-leader", "cooling"}},
	} {
		for _, p := range part.plants {
			if p.Scenarios == nil {
				p.Scenarios = part.scenarios
			}
			all = append(all, p)
		}
	}
	return all
}

// Named is the plant of a name.
func Named(name string) (Plant, error) {
	for _, p := range All() {
		if p.Name == name {
			return p, nil
		}
	}
	return Plant{}, fmt.Errorf("plants: no plant is called %q", name)
}
