package sim

import "testing"

// A fault that is forced is in every world; a name that is none is refused.
func TestForce(t *testing.T) {
	opts, err := Options{}.Force("leader dies", "store flushed")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(8) {
		if w := newWorld(seed, opts, worldSpan); !w.faults[leaderDies] || !w.faults[flush] {
			t.Errorf("seed %d does without", seed)
		}
	}
	if _, err := (Options{}).Force("leader dances"); err == nil {
		t.Error("an unknown fault is accepted")
	}
}
