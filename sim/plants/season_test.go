//go:build !race

package plants

import (
	"path/filepath"
	"testing"
)

// Every plant that was caught once is caught again, in a world that is whole without it. The race detector has
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
	var seen []Plant
	for _, p := range All() {
		if _, ok := known[p.Name]; ok {
			seen = append(seen, p)
		}
	}
	season := Season{Bench: bench, Known: known, Limit: Patience, Jobs: 2}
	season.Try(t.Context(), seen, func(v Verdict, err error) {
		switch {
		case err != nil:
			t.Error(err)
		case !v.AsExpected() && v.Caught:
			t.Errorf("%s is said to break nothing, and seed %d breaks: %s", v.Plant.Name, v.Seed, v.What)
		case !v.AsExpected():
			t.Errorf("%s is not caught in %d worlds from seed %d on", v.Plant.Name, v.Worlds, known[v.Plant.Name].Seed)
		}
	})
}
