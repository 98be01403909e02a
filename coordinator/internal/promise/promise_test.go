package promise

import (
	"math"
	"strings"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/coordinator/internal/leader"
	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// worded is what is promised of 300 at once and 100 a second, or in 3 s, over three
// regions.
func worded(enforcement string, algorithm limit.Algorithm, with func(*budget.Config), s leader.Conditions) map[string]*aliquotv1.Bound {
	p := Limit{
		rule:  &rules.Rule{Enforcement: enforcement, Limit: limit.Limit{Algorithm: algorithm}},
		limit: limit.Limit{Algorithm: algorithm, Capacity: 300 * limit.Token, Rate: limit.Rate{Micro: 100e6}, Window: 3 * time.Second},
	}
	p.config = budget.NewConfig([]string{"a", "b", "c"}, 10*time.Second, 20_000)
	if with != nil {
		with(&p.config)
	}
	out := map[string]*aliquotv1.Bound{}
	for _, b := range p.ToWire(s).GetBounds() {
		out[b.GetName()] = b
	}
	return out
}

// TestPromiseOfALoss: a rule that forgives admits one limit more for each loss of a store, and no other
// rule has that bound.
func TestPromiseOfALoss(t *testing.T) {
	for _, algorithm := range []limit.Algorithm{limit.TokenBucket, limit.FixedWindow, limit.Concurrency} {
		p := Limit{
			rule:  &rules.Rule{Enforcement: rules.Strict, Forgives: true, Limit: limit.Limit{Algorithm: algorithm}},
			limit: limit.Limit{Algorithm: algorithm, Capacity: 300 * limit.Token, Rate: limit.Rate{Micro: 100e6}, Window: 3 * time.Second},
		}
		p.config = budget.NewConfig([]string{"a", "b", "c"}, 10*time.Second, 20_000)
		value := 0.0
		for _, b := range p.ToWire(leader.Conditions{}).GetBounds() {
			if b.GetName() == "excess_data_loss" {
				value = b.GetValue()
			}
		}
		if value != 300 {
			t.Errorf("%v: a loss admits %v more, want 300", algorithm, value)
		}
		if b := worded(rules.Strict, algorithm, nil, leader.Conditions{})["excess_data_loss"]; b != nil {
			t.Errorf("%v: a rule that denies: %v", algorithm, b)
		}
	}
}

func TestPromiseInWords(t *testing.T) {
	for _, c := range []struct {
		name        string
		enforcement string
		algorithm   limit.Algorithm
		with        func(*budget.Config)
		want        map[string]float64
		says        string // of the excess
		silent      []string
	}{
		{name: "strict", enforcement: rules.Strict, want: map[string]float64{"admitted_burst": 300, "admitted_rate": 102, "excess": 0}, says: "never"},
		{name: "elastic", enforcement: rules.Elastic, want: map[string]float64{"admitted_burst": 900, "admitted_rate": 102, "excess": 600}, says: "the other regions"},
		{name: "independent", enforcement: rules.Independent, want: map[string]float64{"admitted_burst": 900, "admitted_rate": 306, "excess": 600, "lost": 0}, says: "of its own",
			silent: []string{"lost_step", "cut_off_keeps"}},
		{name: "floors that move", enforcement: rules.Elastic, with: func(c *budget.Config) { c.Regions[0].Told.Burst = 0 },
			want: map[string]float64{"admitted_burst": 1000, "excess": 700, "excess_moving_floors": 100}, says: "the other regions"},
		{name: "a queue", enforcement: rules.Strict, algorithm: limit.LeakyBucket, want: map[string]float64{"admitted_burst": 300, "admitted_rate": 102, "excess": 0}, says: "never"},
		{name: "fixed windows", enforcement: rules.Strict, algorithm: limit.FixedWindow,
			want: map[string]float64{"admitted_burst": 900, "admitted_rate": 102, "excess": 600, "admitted_window": 300, "cut_off_time": 27.34}, says: "a window apart"},
		{name: "a log", enforcement: rules.Elastic, algorithm: limit.SlidingLog, want: map[string]float64{"admitted_burst": 300, "admitted_rate": 102, "excess": 0}, says: "never"},
		{name: "slots", enforcement: rules.Strict, algorithm: limit.Concurrency, want: map[string]float64{"in_use": 300, "excess": 0}, says: "above the capacity",
			silent: []string{"admitted_burst", "admitted_rate"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bounds := worded(c.enforcement, c.algorithm, c.with, leader.Conditions{})
			for name, want := range c.want {
				b := bounds[name]
				if b == nil || b.GetValue() < want-.01 || b.GetValue() > want+.01 || b.GetMeaning() == "" || b.GetKind() == "" || b.GetUnit() == "" {
					t.Errorf("%s: %v, want %v", name, b, want)
				}
			}
			if !strings.Contains(bounds["excess"].GetMeaning(), c.says) {
				t.Errorf("%q does not say %q", bounds["excess"].GetMeaning(), c.says)
			}
			for _, name := range c.silent {
				if b := bounds[name]; b != nil {
					t.Errorf("says %v", b)
				}
			}
		})
	}
}

// TestIndependentLimitsCountDrainedRegions: a drained region goes on with a limit of its own, a fenced one does not.
func TestIndependentLimitsCountDrainedRegions(t *testing.T) {
	for name, c := range map[string]struct {
		with  func(*budget.Config)
		burst float64
	}{
		"three":   {nil, 900},
		"drained": {func(c *budget.Config) { gone(c, false) }, 900},
		"fenced":  {func(c *budget.Config) { gone(c, true) }, 600},
	} {
		bounds := worded(rules.Independent, limit.TokenBucket, c.with, leader.Conditions{})
		if burst, rate := bounds["admitted_burst"].GetValue(), bounds["admitted_rate"].GetValue(); burst != c.burst || math.Abs(rate-c.burst/3*1.02) > 1e-6 {
			t.Errorf("%s: %v and %v a second, want %v and %v", name, burst, rate, c.burst, c.burst/3*1.02)
		}
		if strict := worded(rules.Strict, limit.TokenBucket, c.with, leader.Conditions{})["admitted_burst"].GetValue(); strict != 300 {
			t.Errorf("%s: a strict limit admits %v, want 300", name, strict)
		}
	}
}

// gone makes the last region drained, or fenced.
func gone(c *budget.Config, fenced bool) {
	r := &c.Regions[len(c.Regions)-1]
	r.Weight, r.Floor, r.Told, r.Fenced = 0, budget.Share{}, budget.Share{}, fenced
}

// TestPromiseCountsWhoIsHeard: the round trip is that of the farthest region that is
// heard, and there is none before all of those were measured.
func TestPromiseCountsWhoIsHeard(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		around leader.Conditions
		follow float64 // seconds; 0: not measured
		silent string
	}{
		{leader.Conditions{}, 0, ""},
		{leader.Conditions{RoundTrips: []time.Duration{40 * ms, 80 * ms, 20 * ms}, Commit: 10 * ms, Silent: []bool{false, false, false}}, 1.54, ""},
		{leader.Conditions{RoundTrips: []time.Duration{40 * ms, 80 * ms, 20 * ms}, Commit: 10 * ms, Silent: []bool{false, true, false}}, 1.30, "b"},
		{leader.Conditions{RoundTrips: []time.Duration{40 * ms, 0, 20 * ms}, Commit: 10 * ms, Silent: []bool{false, true, false}}, 1.30, "b"},
		{leader.Conditions{RoundTrips: []time.Duration{40 * ms, 0, 20 * ms}, Commit: 10 * ms, Silent: []bool{false, false, false}}, 0, ""},
		{leader.Conditions{RoundTrips: []time.Duration{40 * ms, 80 * ms, 20 * ms}, Commit: 0, Silent: []bool{false, false, false}}, 0, ""},
		{leader.Conditions{RoundTrips: []time.Duration{40 * ms, 80 * ms, 20 * ms}, Commit: 10 * ms, Silent: []bool{true, true, true}}, 0, "a, b, c"},
		// One more was declared since the configuration was read.
		{leader.Conditions{RoundTrips: []time.Duration{40 * ms, 80 * ms, 20 * ms, 0}, Commit: 10 * ms, Silent: []bool{false, false, false, true}}, 1.54, ""},
	} {
		bounds := worded(rules.Strict, limit.TokenBucket, nil, c.around)
		follows := bounds["share_follows"]
		if follows.GetUnmeasured() != (c.follow == 0) || follows.GetValue() < c.follow-.01 || follows.GetValue() > c.follow+.01 {
			t.Errorf("%+v: %v, want %v", c.around, follows, c.follow)
		}
		reserved := bounds["reserved_now"]
		if (reserved != nil) != (c.silent != "") || reserved != nil && !strings.HasSuffix(reserved.GetMeaning(), ": "+c.silent) {
			t.Errorf("%+v: %v, want %q", c.around, reserved, c.silent)
		}
	}
}

// TestResidualThatIsNotKnown: 0 is said only of regions that have left every version whose limits are forgotten.
func TestResidualThatIsNotKnown(t *testing.T) {
	floor := budget.Share{Rate: budget.Unit / 2, Burst: budget.Unit / 2}
	now := budget.KeyLimit{Capacity: 10e6, Rate: 1e6}
	larger := []Older{{version: 4, limit: budget.KeyLimit{Capacity: 30e6, Rate: 1e6}}}
	regions := func(versions ...uint64) []budget.RegionStatus {
		var out []budget.RegionStatus
		for _, v := range versions {
			out = append(out, budget.RegionStatus{RulesVersion: v})
		}
		return out
	}
	for name, c := range map[string]struct {
		older   OlderLimits
		known   []budget.RegionStatus
		unknown bool
		excess  float64
	}{
		"no leader":                {OlderLimits{known: larger}, nil, true, 0},
		"no leader, independent":   {OlderLimits{independent: true}, nil, false, 0},
		"all in force":             {OlderLimits{known: larger, forgotten: 3}, regions(5, 5, 0), false, 0},
		"one at a forgotten one":   {OlderLimits{known: larger, forgotten: 3}, regions(5, 3, 5), true, 10},
		"one right after it":       {OlderLimits{known: larger, forgotten: 3}, regions(5, 4, 5), false, 10},
		"one was not heard":        {OlderLimits{known: larger, forgotten: 3}, regions(5, 0, 5), true, 10},
		"none forgotten, unheard":  {OlderLimits{known: larger}, regions(0, 0, 0), false, 20},
		"a region that is fenced":  {OlderLimits{known: larger, forgotten: 3}, regions(5, 5, 2), false, 0},
		"declared since, no state": {OlderLimits{known: larger, forgotten: 3}, regions(5), false, 0},
	} {
		var b aliquotv1.Budget
		SetResidual(&b, now, &c.older, []budget.Share{floor, floor, {}}, c.known)
		if got := b.GetResidualExcess(); b.GetResidualExcessUnknown() != c.unknown || got < c.excess || got > c.excess+.001 {
			t.Errorf("%s: %v, not known: %v; want %v, %v", name, got, b.GetResidualExcessUnknown(), c.excess, c.unknown)
		}
	}
}
