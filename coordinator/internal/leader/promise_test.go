package leader

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/rules"
)

// A promise names how long what is lent takes only if every region that is heard, and the log, were
// measured. A silent region's round trip does not count.
func TestATermThatWasNotMeasuredIsUnknown(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		what              string
		is                Conditions
		roundTrip, quorum time.Duration
	}{
		{"nothing is known", Conditions{RoundTrips: make([]time.Duration, 2), Silent: make([]bool, 2)}, -1, -1},
		{"all is", Conditions{RoundTrips: []time.Duration{8 * ms, 3 * ms}, Silent: make([]bool, 2), Commit: 5 * ms}, 8 * ms, 5 * ms},
		{"one region is not", Conditions{RoundTrips: []time.Duration{8 * ms, 0}, Silent: make([]bool, 2), Commit: 5 * ms}, -1, 5 * ms},
		{"one is silent", Conditions{RoundTrips: []time.Duration{8 * ms, 3 * ms}, Silent: []bool{true, false}, Commit: 5 * ms}, 3 * ms, 5 * ms},
		{"a silent one is not", Conditions{RoundTrips: []time.Duration{0, 3 * ms}, Silent: []bool{true, false}, Commit: 5 * ms}, 3 * ms, 5 * ms},
		{"all are silent", Conditions{RoundTrips: []time.Duration{8 * ms, 3 * ms}, Silent: []bool{true, true}, Commit: 5 * ms}, -1, 5 * ms},
	} {
		terms := PromiseTerms(&rules.Rule{}, budget.KeyLimit{}, nil, c.is)
		if terms.RoundTrip != c.roundTrip || terms.Quorum != c.quorum {
			t.Errorf("%s: a round trip of %v and a commit of %v, want %v and %v", c.what, terms.RoundTrip, terms.Quorum, c.roundTrip, c.quorum)
		}
	}
}

// The state machine divides a limit by its rule's placement.
func TestKeyLimitHasThePlacement(t *testing.T) {
	for of, want := range map[string]budget.Placement{rules.Split: budget.PlacementSplit, rules.Home: budget.PlacementHome, rules.Auto: 0} {
		if got := KeyLimit(&rules.Rule{Placement: of}, limit.Limit{Capacity: limit.Token}).Placement; got != want {
			t.Errorf("placement %v: %v, want %v", of, got, want)
		}
	}
}
