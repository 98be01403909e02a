package check

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/sim/check/search"
	"aliquot/limit"
)

// deep are the scenarios that catch a plant (internal/sim/plants) only after more than statesEach states.
var deep = []string{"cold-late", "deposed-amnesia", "drain-cold", "lent-greedy", "twins-replaced"}

// statesOf returns how many states of a scenario are searched. `make test-long` searches statesDeep of each.
func statesOf(sc Scenario) int {
	if sc.Small || slices.Contains(deep, sc.Name) {
		return statesDeep
	}
	return statesEach
}

// Nothing that can happen breaks a promise, as far as the search goes.
func TestScenarios(t *testing.T) {
	states, exhausted := 0, 0
	t.Log(Header)
	for _, sc := range Scenarios() {
		r := sc.Search(search.Bound{States: statesOf(sc), Workers: 2})
		t.Log(&r)
		states += r.States
		if r.End == search.Exhausted {
			exhausted++
		} else if sc.Small && statesDeep >= smallStates {
			t.Errorf("%s does not end by itself: %v", sc.Name, r.End)
		}
		if r.Violation != nil {
			t.Error(r.Violation)
		}
	}
	t.Logf("%d states; %d scenarios ended by themselves", states, exhausted)
	if states < statesDue {
		t.Errorf("%d states, not %d", states, statesDue)
	}
}

func scenario(t *testing.T, name string) Scenario {
	t.Helper()
	for _, sc := range Scenarios() {
		if sc.Name == name {
			return sc
		}
	}
	t.Fatalf("there is no scenario %q", name)
	return Scenario{}
}

// From rest, a region that alone begins to want the key has all of it three reports after the
// one that told so, whatever the clocks.
func TestGrowsWhenNothingFails(t *testing.T) {
	for _, name := range []string{"lent", "lent-3", "stuck", "flush", "one-token", "elastic"} {
		sc := scenario(t, name)
		sc.prepare()
		for want := range int8(sc.Regions) {
			w, failed := sc.root()
			if failed != "" {
				t.Fatal(failed)
			}
			w.quietly(sc.all(), 8) // comes to rest
			w.quietly(want, growsIn)
			if w.broken != "" || !w.hasAll(int(want)) {
				t.Errorf("%s: region %s has not grown%s %s", name, regionName(int(want)), w.sharesText(w.now), w.broken)
			}
		}
	}
}

// The search is the same for any number of workers.
func TestWorkersAgree(t *testing.T) {
	sc := scenario(t, "cold-3")
	one, two := sc.Search(search.Bound{Depth: 9}), sc.Search(search.Bound{Depth: 9, Workers: 2})
	if one.States != two.States || one.Depth != two.Depth || one.States < 1000 {
		t.Errorf("one worker: %v\ntwo: %v", &one, &two)
	}
}

// A fault on purpose is seen, and its path replays.
func TestSeesWhatIsBroken(t *testing.T) {
	breaks := []struct {
		what, scenario, says string
		// within is how many states it may take.
		within int
		do     func(*Scenario)
	}{
		{"clocks differ by more than rho", "cut-off", "the bound", 3000, func(sc *Scenario) { sc.RhoPPM, sc.driftPPM = 0, 100_000 }},
		{"a lease that has ended goes on", "lent", "I1", 100000, func(sc *Scenario) {
			sc.spoil = func(_ *node, v *limit.View) {
				if v.Phase == limit.Limbo && v.Hot {
					v.Phase, v.Until, v.Since = limit.Live, math.MaxInt64, 0
				}
			}
		}},
		{"the floor is taken back after T", "lent", "I1", 3000, func(sc *Scenario) {
			sc.spoil = func(n *node, v *limit.View) {
				if v.Phase == limit.Limbo && v.Hot {
					v.Phase, v.Since, v.HeardWait = limit.Floor, 0, 0
				}
			}
		}},
		{"every contents started full", "cold-flush", "the bound", 3000, func(sc *Scenario) {
			sc.spoil = func(_ *node, v *limit.View) { v.Birth = 0 }
		}},
		{"records of other contents are trusted", "roll-back", "the bound", 30000, func(sc *Scenario) {
			sc.spoil = func(_ *node, v *limit.View) { v.Stamp = 1 }
		}},
		{"a deposed leader believes that it leads", "deposed-split", "I1", 1000, func(sc *Scenario) { sc.noProof = true }},
		{"a deposed leader's proof is an answer of before", "deposed-split", "I1", 1000, func(sc *Scenario) { sc.olderProof = true }},
		{"use is forgotten with the lease", "sliding-window-log", "I3", 200000, func(sc *Scenario) { sc.noTail = true }},
		{"an elastic bucket refills at the whole rate", "elastic", "I1", 1000, func(sc *Scenario) {
			sc.spoil = func(_ *node, v *limit.View) {
				if !v.Hot {
					v.Floor.Rate = sc.Limit.Rate
				}
			}
		}},
	}
	for _, b := range breaks {
		if b.within > searchFor {
			continue
		}
		t.Run(b.what, func(t *testing.T) {
			sc := scenario(t, b.scenario)
			b.do(&sc)
			r := sc.Search(search.Bound{States: b.within}) // by one worker: of several violations at one depth always the same is seen
			if r.Violation == nil || !strings.Contains(r.Violation.What, b.says) {
				t.Fatalf("not seen: %v", &r)
			}
			if r.Violation.Replay == "" {
				return // seen on the way to the root already
			}
			again, err := sc.Replay(r.Violation.Replay)
			if err != nil || again.What != r.Violation.What {
				t.Fatalf("its path comes to another end: %v, %v", again, err)
			}
			t.Log(&r)
		})
	}
}

// The leader gives no more than there is, for every division.
func TestDivisionsCannotBreakAnything(t *testing.T) {
	sc := scenario(t, "lent")
	everything := func(_ budget.KeyID, _ budget.Share, claims []budget.Claim) []budget.Share {
		out := make([]budget.Share, len(claims))
		for i := range out {
			out[i] = whole
		}
		return out
	}
	sc.divisions = []budget.Divide{everything, everything, everything, everything}
	sc.Root = awake
	sc.prepare()
	w, failed := sc.root()
	if failed != "" {
		t.Fatal(failed)
	}
	for range 20 {
		w.quietly(w.sc.all(), 1)
	}
	if w.broken != "" || w.ledger.Shares(key) == nil {
		t.Fatalf("the key is hot: %v; %s", w.ledger.Shares(key) != nil, w.broken)
	}
}

// Events that are no path of the scenario are an error, or a violation of their own.
func TestReplayRefusesNonsense(t *testing.T) {
	sc := scenario(t, "cold")
	if _, err := sc.Replay("1.2"); err == nil {
		t.Error("no error")
	}
}

// A bound on time ends a search.
func TestTimeBound(t *testing.T) {
	r := scenario(t, "cold").Search(search.Bound{Time: time.Nanosecond})
	if r.End != search.TimeOver {
		t.Errorf("%v", &r)
	}
}

// A search says what ended it, and how far it went.
func TestSearchSaysWhatEndedIt(t *testing.T) {
	for _, x := range []struct {
		scenario string
		bound    search.Bound
		want     search.End
	}{{"cold", search.Bound{States: 100}, search.StatesFound}, {"cold", search.Bound{Depth: 3}, search.DepthFound}, {"deposed-both-1", search.Bound{}, search.Exhausted}} {
		sc := scenario(t, x.scenario)
		r := sc.Search(x.bound)
		if r.End != x.want || r.Faults != sc.Budget || r.Turns != sc.Turns || r.States == 0 || r.Depth == 0 {
			t.Errorf("%s within %+v: %v", x.scenario, x.bound, &r)
		}
	}
}
