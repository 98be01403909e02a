package plants

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

//go:embed known.json
var knownJSON []byte

// knownFile is where known.json is, from the root of the module.
const knownFile = "internal/sim/plants/known.json"

// Sighting says where a plant was last caught: in which world, in which scenario.
// Worlds change with the simulator, so a seed is where to begin, not where to end.
type Sighting struct {
	Seed     uint64 `json:"seed,omitempty"`     // 0: not caught by the simulator
	Scenario string `json:"scenario,omitempty"` // empty: not caught by the checker
	// Test is a test, after its package, that sees what breaks no promise.
	Test string `json:"test,omitempty"`
}

// Known are the last sightings by the plants' names.
func Known() (map[string]Sighting, error) {
	known := map[string]Sighting{}
	if err := json.Unmarshal(knownJSON, &known); err != nil {
		return nil, fmt.Errorf("%s: %w", knownFile, err)
	}
	return known, nil
}

// Remember writes where plants were caught into the module at root; of what was not
// tried again the older sighting stays. It returns all of them.
func Remember(root string, known map[string]Sighting, verdicts []Verdict) (map[string]Sighting, error) {
	all := map[string]Sighting{}
	for _, p := range All() {
		if s, ok := known[p.Name]; ok {
			all[p.Name] = s
		}
	}
	for _, v := range verdicts {
		s := all[v.Plant.Name]
		if v.Sim.Tried {
			s.Seed = v.Sim.Seed
		}
		if v.Check.Tried {
			s.Scenario = v.Check.Scenario
		}
		if v.Test.Tried {
			s.Test = v.Test.Test
		}
		all[v.Plant.Name] = s
		if s == (Sighting{}) {
			delete(all, v.Plant.Name)
		}
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, err
	}
	return all, os.WriteFile(filepath.Join(root, filepath.FromSlash(knownFile)), append(text, '\n'), 0o644)
}
