package coordinator

import (
	"math"
	"testing"
	"time"

	clusterstate "aliquot/cluster/state"

	"aliquot/cluster"
	"aliquot/coordinator/internal/leader"
	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// TestBudgetsOfLimitsThatCount: they are strict though the rule says nothing, their rate
// is the capacity a window, and slots have none.
func TestBudgetsOfLimitsThatCount(t *testing.T) {
	node := nodeOfOne(t)
	text := `rules:
  - {id: fixed, algorithm: fixed_window, params: {limit: 120, window: 60}}
  - {id: counter, algorithm: sliding_window_counter, params: {limit: 120, window: 60}}
  - {id: log, algorithm: sliding_window_log, params: {limit: 120, window: 60}}
  - {id: slots, algorithm: concurrency, params: {limit: 120, window: 60}}
`
	if _, err := node.ApplyRules(t.Context(), cluster.RulesChange{YAML: text, FileName: "r.yaml", Author: "test"}); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]struct{ rate, excess, bound float64 }{
		"fixed": {2, 240, 2.04}, "counter": {2, 240, 2.04}, "log": {2, 0, 2.04}, "slots": {0, 0, 0},
	} {
		var b budgetView
		var err error
		node.View(func(s *clusterstate.State) {
			b, _, err = readBudget(s, &aliquotv1.GetBudgetRequest{RuleId: id, Key: map[string]string{"api_key": "k"}})
		})
		if err != nil {
			t.Fatal(err)
		}
		got := b.budget
		if got.GetEnforcement() != "strict" || got.GetLimit().GetRefillRate() != want.rate || got.GetLimit().GetWindow().AsDuration() != time.Minute ||
			got.GetWorstCaseExcess() != want.excess || math.Abs(got.GetBoundRate()-want.bound) > 1e-9 {
			t.Errorf("%s: %v", id, got)
		}
		us := got.GetRegions()[0]
		if math.Abs(us.GetBurst()-60) > .001 || math.Abs(us.GetRate()-want.rate/2) > .001 {
			t.Errorf("%s: %v", id, us)
		}
		if lasts := b.limit.Tail; lasts < time.Minute || lasts > 2*time.Minute {
			t.Errorf("%s: a tail of %v", id, lasts)
		}
	}
	if got := leader.RatePerSecond(limit.Limit{Capacity: 10 * limit.Token, Rate: limit.Rate{Micro: 3e6}}); got != 3 {
		t.Errorf("a bucket earns %v", got)
	}
}
