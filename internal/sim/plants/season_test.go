//go:build !race

package plants

import (
	"path/filepath"
	"testing"
)

// The plants that any few worlds catch are caught again, in a world that is whole without it. The race detector has
// nothing to look for in the worlds, and would make them ten times as slow.
func TestPlantsAreCaught(t *testing.T) {
	known, err := Known()
	if err != nil {
		t.Fatal(err)
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	bench, err := NewBench(t.Context(), abs, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var common []Plant
	for _, p := range All() {
		if s := known[p.Name]; s.Seed != 0 && s.Seed <= commonSeeds {
			common = append(common, p)
		}
	}
	if len(common) < 30 {
		t.Fatalf("%d plants are seen within %d worlds", len(common), commonSeeds)
	}
	season := Season{Bench: bench, Known: known, Limit: Patience, Jobs: 2, Sim: true}
	season.Try(t.Context(), common, func(v Verdict, err error) {
		if err != nil {
			t.Error(err)
		} else if !v.AsExpected() {
			t.Errorf("%s is not caught: %+v", v.Plant.Name, known[v.Plant.Name])
		}
	})
}

// commonSeeds is how many worlds a plant takes at most to be tried here: each change of
// what worlds draw moves the seeds of those that take more, and finding them again is
// minutes of search. `make plants` tries all.
const commonSeeds = 3
