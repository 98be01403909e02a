package main

import (
	"slices"
	"strings"
	"time"

	"aliquot/internal/sim/check"
	"aliquot/internal/sim/check/search"
)

// firstStates is how many states of every scenario are searched before any of them is
// searched on.
const firstStates = 1000

// explore goes through scenarios, four times as far in every round: what is broken is
// often found soon in some scenario, and which one is not known. One alone is searched
// all the way at once.
func explore(names string, states int, atMost time.Duration) (f found) {
	wanted := strings.Split(names, ",")
	bound := min(firstStates, states)
	if len(wanted) == 1 {
		bound = states
	}
	for ; ; bound = min(4*bound, states) {
		for _, sc := range check.Scenarios() {
			if !slices.Contains(wanted, sc.Name) {
				continue
			}
			if worked() >= atMost {
				return f
			}
			r := sc.Search(search.Bound{States: bound, Workers: 1})
			f.Scenario, f.States = sc.Name, r.States
			if v := r.Violation; v != nil {
				f.What, f.Events = v.What, len(v.Path)
				return f
			}
		}
		if bound == states {
			return f
		}
	}
}
