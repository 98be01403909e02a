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
const knownFile = "sim/plants/known.json"

// Sighting says where a plant was last caught. Worlds change with the simulator, so
// a seed is where to begin, not where to end.
type Sighting struct {
	Seed uint64 `json:"seed"`
}

// Known are the last sightings by the plants' names.
func Known() (map[string]Sighting, error) {
	known := map[string]Sighting{}
	if err := json.Unmarshal(knownJSON, &known); err != nil {
		return nil, fmt.Errorf("%s: %w", knownFile, err)
	}
	return known, nil
}

// Remember writes where plants were caught into the module at root; of a plant that
// is not among the verdicts, or was not caught, the older sighting stays.
func Remember(root string, known map[string]Sighting, verdicts []Verdict) error {
	all := map[string]Sighting{}
	for _, p := range All() {
		if s, ok := known[p.Name]; ok && p.Harmless == "" {
			all[p.Name] = s
		}
	}
	for _, v := range verdicts {
		if v.Caught && v.Plant.Harmless == "" {
			all[v.Plant.Name] = Sighting{Seed: v.Seed}
		}
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, filepath.FromSlash(knownFile)), append(text, '\n'), 0o644)
}
