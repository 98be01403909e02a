package check

import (
	"fmt"

	"aliquot/internal/sim/check/search"
)

// Search explores everything that can happen in the scenario, up to a bound; see search.Run. It ends
// at the first violation.
func (sc Scenario) Search(bound search.Bound) Result {
	sc.prepare()
	r := Result{Scenario: sc.Name, About: sc.About, Faults: sc.Budget, Turns: sc.Turns}
	root, failed := sc.root()
	if failed != "" {
		r.End, r.Violation = search.Broken, &Violation{Scenario: sc.Name, What: "on the way to the root: " + failed}
		return r
	}
	found := search.Run(root, bound, func() func(*world) uint64 { return new(writer).key })
	if r.Figures = found.Figures; found.Path != nil {
		r.Violation = sc.explain(found.Path)
	}
	return r
}

// Ideal returns what the ideal bucket holds, in micro-tokens.
func (w *world) Ideal() int64 { return w.ideal }

// Quanta returns the time since the search began.
func (w *world) Quanta() int { return int((w.now - w.began) / int64(w.sc.Quantum)) }

// root returns the world at the root, with the scenario's budgets.
func (sc *Scenario) root() (w *world, failed string) {
	defer func() {
		if p := recover(); p != nil {
			failed = fmt.Sprintf("panic: %v", p)
		}
	}()
	w = newWorld(sc)
	if sc.Root != nil {
		sc.Root(w)
	}
	w.settle()
	w.faults, w.turns, w.lonely, w.began = int8(sc.Budget), int8(sc.Turns), 0, w.now
	return w, w.broken
}

// Try applies an event and returns what it breaks. A state machine that panics breaks a promise
// too.
func (w *world) Try(e event) (broken string) {
	defer func() {
		if p := recover(); p != nil {
			broken = fmt.Sprintf("panic: %v", p)
		}
	}()
	w.do(e)
	return w.broken
}
