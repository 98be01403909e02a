//go:build !race

package check

import (
	"fmt"
	"strings"
	"testing"

	"aliquot/internal/pinned"
	"aliquot/internal/sim/check/search"
)

// pinnedDepth is how many events from the root the pinned searches go.
const pinnedDepth = 4

// TestPinnedStates: a scenario has the states that it had.
func TestPinnedStates(t *testing.T) {
	var out strings.Builder
	fmt.Fprintf(&out, "%-30s %7s %11s %6s %10s  %s\n", "scenario", "states", "transitions", "quanta", "recoveries", "ended by")
	for _, sc := range Scenarios() {
		r := sc.Search(search.Bound{Depth: pinnedDepth}) // by one worker: in another order fewer events may be tried
		fmt.Fprintf(&out, "%-30s %7d %11d %6d %10d  %s\n", sc.Name, r.States, r.Transitions, r.Quanta, r.Recoveries, r.End)
	}
	pinned.Compare(t, "states.txt", out.String())
}
