package compare

import (
	"reflect"
	"runtime"
	"strings"
	"testing"

	"aliquot/internal/pinned"
)

func outcomeOf(t *testing.T, kind string, w Workload) Outcome {
	t.Helper()
	o, err := Run(KindOf(kind), w, 1)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// comparePinned compares outcomes with a table of testdata. Other processors compute other last digits of logarithms
// and powers, which make other workloads.
func comparePinned(t *testing.T, file string, outcomes []Outcome) {
	t.Helper()
	if runtime.GOARCH == "amd64" {
		var out strings.Builder
		Table{Outcomes: outcomes}.WriteText(&out)
		pinned.Compare(t, file, out.String())
	}
}

// A strict limit is never exceeded, an elastic one by its extra bursts at the most,
// whatever is asked and whatever breaks.
func TestBounds(t *testing.T) {
	var outcomes []Outcome
	for _, w := range Workloads() {
		strict := outcomeOf(t, "strict", w)
		if strict.Ratio > 1 {
			t.Errorf("%s: strict admits %.6f of C + r(1+rho)t", w.Name, strict.Ratio)
		}
		if strict.Gain > 1 && !w.Drifting {
			t.Errorf("%s: strict admits %.6f of C + rt", w.Name, strict.Gain)
		}
		if strict.Admitted == 0 {
			t.Errorf("%s: nothing was admitted", w.Name)
		}
		elastic := outcomeOf(t, "elastic", w)
		if elastic.OwnRatio > 1 || elastic.Excess > regions-1 {
			t.Errorf("%s: elastic admits %.6f of its bound, %.6f bursts above the strict one", w.Name, elastic.OwnRatio, elastic.Excess)
		}
		outcomes = append(outcomes, strict, elastic)
	}
	comparePinned(t, "bounds.txt", outcomes)
}

func TestTheSameSeedIsTheSameRun(t *testing.T) {
	var outcomes []Outcome
	for _, k := range Kinds() {
		a, b := outcomeOf(t, k.Name, Broken(Rotation())), outcomeOf(t, k.Name, Broken(Rotation()))
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: %+v, then %+v", k.Name, a, b)
		}
		outcomes = append(outcomes, a)
	}
	comparePinned(t, "limiters.txt", outcomes)
}
