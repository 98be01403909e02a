// Package plants breaks the budget protocol on purpose, one rule at a time, to show
// that the simulator and the exhaustive checker would see it. A plant is a change of
// the source: the code that ships has no hook for it. The changed copy is compiled
// beside the rest of the module (go build -overlay), runs the same worlds as the
// whole code does, and has to break a promise in one that is whole without it.
//
// The catalogue is in the files list_*.go; known.json remembers where each plant was
// last seen; docs/benchmarks/planted-bugs.md is the table.
package plants

import (
	"fmt"
	"time"

	"aliquot/limit"
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
	// Scenarios are those of the checker that have to do with it; empty: those of its
	// part of the catalogue, see All.
	Scenarios []string
	// Harmless is the argument why it breaks nothing, or why nothing that looks for it sees
	// that it does; then it is an error if it is caught. Empty for all others, which have to be.
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
	Regions int      `json:"regions,omitempty"` // 0, as for all that follows: as the seed draws
	Keys    int      `json:"keys,omitempty"`
	Faults  []string `json:"faults,omitempty"` // kinds that every world has, by their names in sim/faults
	Just    bool     `json:"just,omitempty"`   // and no others
	// Lease and RhoPPM are the timing at the start.
	Lease  time.Duration `json:"lease_ns,omitempty"`
	RhoPPM int           `json:"rho_ppm,omitempty"`
	// Algorithms are what keys' limits are drawn from, by their names. All gives buckets
	// to plants that have to do with tokens.
	Algorithms []string `json:"algorithms,omitempty"`
	// Burst and Rate are a strict limit of every key, whole tokens.
	Burst int `json:"burst,omitempty"`
	Rate  int `json:"rate,omitempty"`
	// Chunks: every limit's daemons take tokens in advance.
	Chunks bool `json:"chunks,omitempty"`
}

// part is one file of the catalogue.
type part struct {
	plants    []Plant
	scenarios []string
}

// All is the whole catalogue, in the order of the table.
func All() []Plant {
	var buckets, counts []string
	for _, a := range limit.Algorithms() {
		if a.Counts() {
			counts = append(counts, a.String())
		} else {
			buckets = append(buckets, a.String())
		}
	}
	var all []Plant
	add := func(algorithms []string, parts ...part) {
		for _, x := range parts {
			for _, p := range x.plants {
				if p.Scenarios == nil {
					p.Scenarios = x.scenarios
				}
				if p.World.Algorithms == nil {
					p.World.Algorithms = algorithms
				}
				all = append(all, p)
			}
		}
	}
	add(buckets,
		part{leases(), []string{"lent", "lent-greedy", "lent-3", "deposed", "cut-off", "cut-off-torn", "stuck", "nobody-leads"}},
		part{ledgers(), []string{"cold", "cold-late", "lent-order", "lent-greedy", "lent-3", "new-leader", "cut-off-3", "deposed-3"}},
		part{leaders(), []string{"lent", "new-leader", "deposed", "cut-off", "twins", "twins-replaced", "cooling"}},
		part{proofs(), []string{"deposed", "deposed-both", "deposed-3"}},
		part{regions(), []string{"lent-order", "deposed-amnesia", "flush-lost", "twins", "twins-cut", "twins-replaced", "twins-leaders", "stuck"}},
		part{tokens(), []string{"cold", "lent-greedy", "new-leader", "cut-off", "cooling", "elastic"}},
		part{memory(), []string{"flush", "flush-cut", "roll-back", "cooling", "cooling-flush", "stuck-flush", "twins"}},
		part{floors(), []string{"reweigh", "reweigh-cut", "reweigh-late", "drain-cold", "drain-3"}},
		part{timing(), []string{"retime", "retime-cut", "twins-replaced"}},
		part{pauses(), []string{"chunks", "stuck"}},
		part{unknownRules(), []string{"chunks", "stuck"}},
		part{changedRules(), []string{"cold"}},
		part{emptied(), []string{"flush", "roll-back"}},
		part{returns(), []string{"flush"}},
		part{promotions(), []string{"flush", "roll-back"}},
		part{chunks(), []string{"chunks", "chunks-cut", "chunks-twins", "chunks-flush", "chunks-stuck", "chunks-elastic"}})
	add(counts,
		part{counted(), []string{"window", "window-cut-off", "window-reweigh", "log", "slots"}},
		part{slots(), []string{"slots"}})
	add(buckets,
		part{elastic(), []string{"elastic", "elastic-cooling", "elastic-3"}},
		part{fairness(), []string{"lent", "new-leader", "cooling"}})
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
