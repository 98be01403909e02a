package service

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"aliquot/budget"
	"aliquot/cluster"
	clusterstate "aliquot/cluster/state"
	"aliquot/coordinator/internal/leader"
	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

func ledgerOf(t *testing.T, n int) *budget.Ledger {
	t.Helper()
	l := &budget.Ledger{Config: budget.NewConfig([]string{"us", "eu"}, time.Second, 0)}
	for i := range n {
		e := budget.Entry{Key: budget.KeyID{Rule: 1}, Shares: make([]budget.Share, 2)}
		binary.BigEndian.PutUint64(e.Key.Hash[:], uint64(i)*0x9e3779b97f4a7c15)
		if err := l.Restore(e); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func TestKeyIndexIsSortedAnewInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // sorting takes no time here
		var x KeyIndex
		l := ledgerOf(t, 3)
		if got := x.Sorted(l); !slices.Equal(got, l.Keys()) {
			t.Errorf("keys %v", got)
		}
		l = ledgerOf(t, 5)
		if got := x.Sorted(l); len(got) != 5 {
			t.Errorf("%d keys of 5: a quick sort is not to be remembered", len(got))
		}
		x.until = time.Now().Add(time.Second) // as if it had taken 50 ms
		l = ledgerOf(t, 7)
		if got := x.Sorted(l); len(got) != 5 {
			t.Errorf("%d keys, want the 5 remembered", len(got))
		}
		<-time.After(time.Second)
		if got := x.Sorted(l); len(got) != 7 {
			t.Errorf("%d keys of 7 when the time is up", len(got))
		}
	})
}

// A remembered key that is hot no more is left out.
func TestHotKeysLeavesOutWhatCooledDown(t *testing.T) {
	set, _, err := rules.Parse("r.yaml", []byte("rules:\n  - {id: r1, key: [api_key], params: {capacity: 100, refill_rate: 10}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := &clusterstate.State{Ledger: *ledgerOf(t, 4), Rules: clusterstate.RuleBook{Set: set, Numbers: map[string]uint32{"r1": 1}}}
	keys := s.Ledger.Keys()
	if err := s.Ledger.Restore(budget.Entry{Key: keys[2]}); err != nil {
		t.Fatal(err)
	}
	var got []budget.KeyID
	for key := range HotKeys(s, keys, nil, &keys[0]) {
		got = append(got, key)
	}
	if want := []budget.KeyID{keys[1], keys[3]}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

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

// A watch of a cold key tells of a change of floors; that of a hot key does not, for its shares are the same.
func TestWatchTellsOfFloors(t *testing.T) {
	s := &clusterstate.State{Ledger: *ledgerOf(t, 1)}
	w := &watch{sent: map[budget.KeyID]string{}}
	hot, cold := s.Ledger.Keys()[0], budget.KeyID{Rule: 9}
	for step, want := range [][2]bool{{true, true}, {false, false}, {false, true}} {
		if step == 2 {
			s.Ledger.Config.Version++
		}
		if got := [2]bool{w.changed(s, hot, 1, 1), w.changed(s, cold, 1, 1)}; got != want {
			t.Errorf("step %d: %v, want %v", step+1, got, want)
		}
	}
}
