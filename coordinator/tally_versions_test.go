package coordinator

import (
	"testing"

	"aliquot/budget"
	clusterstate "aliquot/cluster/state"
	"aliquot/rules"
)

// by is a report under another number of the rule, of a limit of so many tokens.
func by(number uint32, capacity int64, rep budget.Report) budget.Report {
	rep.Keys[0].Key.Rule, rep.Keys[0].Limit.Capacity = number, capacity*microToken
	return rep
}

// TestTallyCountsARuleOverItsNumbers: a client has one limit, whatever numbers its rule has in
// the versions that regions go by. So the watch would see a stage that gives it two.
func TestTallyCountsARuleOverItsNumbers(t *testing.T) {
	y := newAuditor(0, strictly, 0)
	y.staged, y.stagedNumbers = true, map[uint32]uint32{2: 1}
	y.addReport(by(1, 100, usage(0, 1, 100)), second(0), always) // two regions by the version in force
	y.addReport(by(2, 100, usage(1, 2, 100)), second(1), always) // one by the staged version
	y.addReport(by(2, 100, usage(0, 1, 5)), second(1), always)   // one that learns of it, in one session
	if got := y.rules[1].excess.value(); !near(got, 205-100-10) {
		t.Errorf("excess %v, want 205 admitted in a second - 100 - 10", got)
	}
	if y.rules[2] != nil || len(y.keys) != 1 || len(y.breaches) != 1 || !near(y.breaches[0].byRegion[0], 100) || !near(y.breaches[0].byRegion[1], 100) {
		t.Errorf("%d keys, breaches %+v", len(y.keys), y.breaches)
	}
	y = y.resume(0, strictly, second(2))
	y.staged, y.stagedNumbers = true, map[uint32]uint32{2: 1}
	y.addReport(by(2, 100, usage(1, 2, 7)), second(3), always) // counts from 0 under another leader
	if got := y.rules[1].admitted[1]; !near(got, 107) {
		t.Errorf("%v admitted in region 1, want 100 and 7", got)
	}
}

// TestTallyOfTwoLimits: while a version is staged the larger limit counts, and reports of the two
// in turn do not begin the count again.
func TestTallyOfTwoLimits(t *testing.T) {
	y := newAuditor(0, strictly, 0)
	y.staged = true
	y.addReport(by(1, 50, usage(1, 2, 0)), second(0), always)
	y.addReport(by(1, 100, usage(0, 1, 0)), second(0), always) // the larger one is seen
	y.addReport(by(1, 100, usage(0, 1, 90)), second(1), always)
	y.addReport(by(1, 50, usage(1, 2, 30)), second(1), always)
	if got := y.rules[1].excess.value(); !near(got, 120-100-10) {
		t.Errorf("excess %v, want 120 admitted in a second - 100 - 10", got)
	}
	y.staged = false // it is promoted, or aborted: the limits that are reported count again
	y.promiseVersion++
	y.addReport(by(1, 50, usage(1, 2, 30)), second(2), always)
	if got := y.keys[budget.KeyID{Rule: 1}].capacity; !near(got, 50) {
		t.Errorf("the capacity that counts is %v after the roll-out", got)
	}
}

// TestCountedAs: a rule's two numbers are counted as one while a version is staged, and not after
// a change without a stage: then the older number is not reported any more, and what the newer
// one admits is within its own promise.
func TestCountedAs(t *testing.T) {
	parse := func(yaml string) *rules.Set {
		set, _, err := rules.Parse("r.yaml", []byte(yaml))
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	s := &clusterstate.State{Rules: clusterstate.RuleBook{Set: parse(twoRules), Numbers: map[string]uint32{"r1": 1, "r2": 2}}}
	if got := stagedNumbers(s); got != nil {
		t.Errorf("without a stage: %v", got)
	}
	// As a coordinator without the refusal would have it.
	s.Rules.Rollout = &clusterstate.Rollout{State: clusterstate.RolloutStaged, Set: parse(twoRules), Numbers: map[string]uint32{"r1": 7, "r2": 2, "new": 8}}
	if got := stagedNumbers(s); len(got) != 1 || got[7] != 1 {
		t.Errorf("%v, want 7 counted as 1", got)
	}
}

// TestTallyOfAReplacedKind: a change of kind without a stage gives the rule a new number, and its
// clients full buckets. That is promised, and no breach.
func TestTallyOfAReplacedKind(t *testing.T) {
	y := newAuditor(0, strictly, 0)
	y.addReport(by(1, 100, usage(0, 1, 100)), second(0), always)
	y.promiseVersion++ // number 1 went away, number 2 came
	hot := func(k budget.KeyID) bool { return k.Rule == 2 }
	y.addReport(by(1, 100, usage(0, 1, 110)), second(1), hot) // a region that has not heard of it yet
	y.addReport(by(2, 100, usage(0, 1, 100)), second(1), hot)
	if len(y.breaches) != 0 || y.rules[2].excess.value() != 0 {
		t.Errorf("%+v, excess %v", y.breaches, y.rules[2].excess.value())
	}
}
