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
	var bySim, others []Plant
	for _, p := range All() {
		switch s := known[p.Name]; {
		case s.Seed != 0:
			bySim = append(bySim, p)
		case s.Scenario != "" || s.Test != "":
			others = append(others, p)
		}
	}
	season := Season{Bench: bench, Known: known, Limit: Patience, Jobs: 2, Sim: true}
	try := func(plants []Plant) {
		season.Try(t.Context(), plants, func(v Verdict, err error) {
			if err != nil {
				t.Error(err)
			} else if !v.AsExpected() {
				t.Errorf("%s is not caught: %+v", v.Plant.Name, known[v.Plant.Name])
			}
		})
	}
	try(bySim)
	season.Sim, season.Check, season.Tests = false, true, true
	try(others)
}
