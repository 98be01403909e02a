package sim

import (
	"testing"

	"aliquot/internal/sim/faults"
)

// A fault that is forced is in every world; a name that is none is refused.
func TestForce(t *testing.T) {
	opts, err := Options{}.Force("leader dies", "store flushed")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(8) {
		if w := newWorld(seed, opts, worldSpan); !w.Faults.Kinds[faults.LeaderDies] || !w.Faults.Kinds[faults.Flush] {
			t.Errorf("seed %d does without", seed)
		}
	}
	opts, err = Options{}.Confine("leader dies")
	if err != nil {
		t.Fatal(err)
	}
	if w := newWorld(3, opts, worldSpan); !w.Faults.Kinds[faults.LeaderDies] || w.Faults.Kinds[faults.Flush] || w.Faults.Kinds[faults.Loss] {
		t.Errorf("a confined world has %v", w.Faults)
	}
	if _, err := (Options{}).Force("leader dances"); err == nil {
		t.Error("an unknown fault is accepted")
	}
}
