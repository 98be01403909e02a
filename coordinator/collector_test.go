package coordinator

import (
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"aliquot/budget"
	"aliquot/rules"
)

func parsed(t *testing.T, text string) *rules.Set {
	t.Helper()
	set, _, err := rules.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

const ruleOfEach = `rules:
  - {id: strict, params: {capacity: 10, refill_rate: 1}, enforcement: strict}
  - {id: elastic, params: {capacity: 10, refill_rate: 1}, enforcement: elastic, override: {vip: {capacity: 70, refill_rate: 1}}}
  - {id: independent, params: {capacity: 10, refill_rate: 2.5}, enforcement: independent}
`

// TestExcessBoundIsOfTheLargestLimit: the excess that is observed is that of any key.
func TestExcessBoundIsOfTheLargestLimit(t *testing.T) {
	set, three := parsed(t, ruleOfEach), budget.NewConfig([]string{"a", "b", "c"}, 1, 0)
	for id, want := range map[string]float64{"strict": 0, "elastic": 2 * 70} {
		if got := excessBound(set.Rule(id), &three); got != want {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
	gone := &three.Regions[2]
	gone.Weight, gone.Floor, gone.Told = 0, budget.Share{}, budget.Share{}
	if got := excessBound(set.Rule("elastic"), &three); got < 70*4./3-.01 || got > 70*4./3 {
		t.Errorf("with one region drained and its floor with nobody yet: %v, want 70 and a third of it", got)
	}
	for i, floor := range three.Targets() {
		three.Regions[i].Floor, three.Regions[i].Told = floor, floor
	}
	if got := excessBound(set.Rule("elastic"), &three); got != 70 {
		t.Errorf("with two regions left: %v, want 70", got)
	}
}

func TestRegionState(t *testing.T) {
	some := budget.Share{Rate: 1, Burst: 1}
	for _, c := range []struct {
		region budget.RegionConfig
		live   bool
		want   string
	}{
		{budget.RegionConfig{Weight: 1, Joined: true, Floor: some, Told: some}, true, regionLive},
		{budget.RegionConfig{Weight: 1, Joined: true, Floor: some, Told: some}, false, regionSilent},
		{budget.RegionConfig{Weight: 1}, false, regionJoining},
		{budget.RegionConfig{Joined: true, Floor: some}, true, regionLeaving},
		{budget.RegionConfig{Joined: true, Told: some, Floor: some}, false, regionLeaving},
		{budget.RegionConfig{Joined: true}, true, regionGone},
		{budget.RegionConfig{Fenced: true}, false, regionGone},
	} {
		if got := regionState(&c.region, c.live); got != c.want {
			t.Errorf("%+v live %v: %s, want %s", c.region, c.live, got, c.want)
		}
	}
}

// shownRule collects what every node shows of a rule.
type shownRule struct {
	*collector
	scene   ruleSnapshot
	regions []budget.RegionConfig
}

// Collect implements prometheus.Collector.
func (o shownRule) Collect(out chan<- prometheus.Metric) { o.collectRule(&o.scene, o.regions, out) }

// TestRulesAreShownWhole: shares and the pool are the whole limit whether or not keys
// are hot, and an independent rule shows neither shares nor a bound.
func TestRulesAreShownWhole(t *testing.T) {
	set, config := parsed(t, ruleOfEach), budget.NewConfig([]string{"a", "b", "c"}, 1, 0)
	for _, scene := range []ruleSnapshot{
		{rule: set.Rule("strict"), shares: make([]float64, 3)},
		{rule: set.Rule("elastic"), shares: []float64{1.5, .25, .2}, keys: 2, bound: 140},
		{rule: set.Rule("independent"), shares: make([]float64, 3)},
	} {
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(shownRule{&collector{desc: newDescriptions()}, scene, config.Regions})
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				got[f.GetName()] = append(got[f.GetName()], m.GetGauge().GetValue())
			}
		}
		whole := 0.0
		for _, part := range append(got["aliquot_budget_share_ratio"], got["aliquot_budget_pool_ratio"]...) {
			whole += part
		}
		bounds := got["aliquot_excess_bound_tokens"]
		switch {
		case len(got["aliquot_limit_refill_tokens_per_second"]) != 1:
			t.Errorf("%s: %v", scene.rule.ID, got)
		case scene.coordinated() && (math.Abs(whole-1) > 1e-9 || len(bounds) != 1 || bounds[0] != scene.bound):
			t.Errorf("%s: shares and pool sum to %v, bound %v", scene.rule.ID, whole, bounds)
		case !scene.coordinated() && (whole != 0 || len(bounds) != 0):
			t.Errorf("%s: shares %v, bound %v of a rule that is not coordinated", scene.rule.ID, whole, bounds)
		}
	}
}
