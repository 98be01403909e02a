package rules

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"aliquot/limit"
)

// What PUT /rules/tier/pro {"limit":500,"capacity":500} makes of the specification's rules.
func TestTierValueStandsAboveTheRule(t *testing.T) {
	file := specification(t)
	s := file.With([]Entry{tierOf("pro", ParamsText{Limit: 500, Capacity: 500})})
	pro := s.Rule("rule_001")
	if want := bucket(500, 8_333_333, 333_333); pro.Limit != want || pro.Window != time.Minute || !pro.SetForTier {
		t.Errorf("%+v, want %+v", pro.Limit, want)
	}
	if vip := limitAt(pro, "sk_prod_vip_001", 0); vip != limitAt(file.Rule("rule_001"), "sk_prod_vip_001", 0) || vip.Capacity != 1000*limit.Token {
		t.Errorf("the vip has %+v", vip)
	}
	if free := s.Rule("rule_002"); free != file.Rule("rule_002") {
		t.Error("a rule of another tier changed")
	}
	if file.Rule("rule_001").SetForTier || file.Rule("rule_001").Limit.Capacity != 100*limit.Token {
		t.Error("the file's own set changed")
	}
	_, matched := s.Match(AttributesOf(map[string]string{"api_key": "sk_prod_abc", "endpoint": "/v1/orders/7"}), 0, nil)
	if len(matched) != 1 || matched[0].Limit != pro.Limit {
		t.Errorf("%+v", matched)
	}
	if back := s.With(nil); back.Rule("rule_001") != file.Rule("rule_001") {
		t.Error("without values the file holds again")
	}
	if again := s.With([]Entry{tierOf("free", ParamsText{Limit: 5})}); again.Rule("rule_001").SetForTier || again.Rule("rule_002").Limit.Capacity != 5*limit.Token {
		t.Error("other values must replace those before")
	}
}

// The meaning of each number for each kind of limit.
func TestTierValueByAlgorithm(t *testing.T) {
	for _, c := range []struct {
		rule  string
		value ParamsText
		want  string
	}{
		{"params: {capacity: 100, refill_rate: 2}", ParamsText{Limit: 500}, "500 at 10/s, window 50s"},
		{"params: {capacity: 100, refill_rate: 2}", ParamsText{Limit: 500, Capacity: 50}, "50 at 10/s, window 5s"},
		{"params: {capacity: 100, refill_rate: 2}", ParamsText{Capacity: 50}, "50 at 2/s, window 25s"},
		{"params: {capacity: 100, refill_rate: 2}", ParamsText{RefillRate: "4"}, "100 at 4/s, window 25s"},
		{"params: {capacity: 100, refill_rate: 2}", ParamsText{Limit: 500, Window: 100 * time.Second}, "500 at 5/s, window 1m40s"},
		{"params: {limit: 100, window: 10}", ParamsText{Limit: 50}, "50 at 5/s, window 10s"},
		{"params: {limit: 100, window: 10}", ParamsText{Capacity: 50}, "50 at 10/s, window 5s"},
		{"params: {limit: 100, window: 10}", ParamsText{Capacity: 50, RefillRate: "1"}, "50 at 1/s, window 50s"},
		{"algorithm: leaky_bucket, params: {capacity: 100, refill_rate: 2}", ParamsText{Limit: 500, Capacity: 50}, "50 at 10/s, window 5s"},
		{"algorithm: fixed_window, params: {limit: 100, window: 10}", ParamsText{Limit: 500, Capacity: 50}, "500 in 10s"},
		{"algorithm: sliding_window_counter, params: {limit: 100, window: 10}", ParamsText{Limit: 500, Window: time.Minute}, "500 in 1m0s"},
		{"algorithm: sliding_window_log, params: {limit: 100, window: 10}", ParamsText{Limit: 500}, "500 in 10s"},
		{"algorithm: concurrency, unit: requests, params: {limit: 100, window: 10}", ParamsText{Limit: 500}, "500 in 10s"},
		{"algorithm: fixed_window, params: {limit: 100, window: 10}", ParamsText{Capacity: 50}, "rule a: fixed_window has a limit and a window, no capacity or refill_rate; state limit"},
		{"algorithm: fixed_window, params: {limit: 100, window: 10}", ParamsText{RefillRate: "5"}, "state limit"},
		{"algorithm: sliding_window_log, params: {limit: 100, window: 10}", ParamsText{Limit: 1001}, "at most 1000"},
		{"params: {capacity: 100, refill_rate: 2}", ParamsText{Limit: 5, RefillRate: "5"}, "limit and refill_rate both state a rate; state one of them"},
		{"params: {capacity: 100, refill_rate: 2}", ParamsText{Window: time.Minute}, "window alone states no limit; state limit beside it"},
		{"params: {capacity: 100, refill_rate: 2}", ParamsText{}, "no limit is stated; state limit or capacity"},
		{"params: {capacity: 100, refill_rate: 2}", ParamsText{Limit: -1}, "limit must be positive; write at least 1"},
		{"params: {capacity: 100, refill_rate: 2}", ParamsText{RefillRate: "x"}, "not a decimal number"},
		{"unit: tokens, params: {limit: 100, window: 10}", ParamsText{Limit: 5}, `no rule of the tier "pro" counts requests, and only those have the value of a tier; change the file`},
	} {
		s := MustParse(t, "rules: [{id: a, tier: pro, match: {endpoint_regex: x}, "+c.rule+"}]\n")
		v := tierOf("pro", c.value)
		got := fmt.Sprint(s.CheckEntry(&v))
		if s.CheckEntry(&v) == nil {
			got = limitText(s.With([]Entry{v}).Rule("a"))
		} else if !errors.Is(s.CheckEntry(&v), ErrBadEdit) || s.With([]Entry{v}).Rule("a").SetForTier {
			t.Errorf("%s, %v: what is refused must be without effect", c.rule, v)
		}
		if !strings.HasSuffix(got, c.want) && !strings.Contains(got, c.want) {
			t.Errorf("%s, %v: %s, want %s", c.rule, v, got, c.want)
		}
	}
}

func tierOf(tier string, p ParamsText) Entry {
	return Entry{EntryID: EntryID{Kind: TierEntry, Name: tier}, ParamsText: p}
}

func limitText(r *Rule) string {
	n := int64(r.Limit.Capacity / limit.Token)
	if r.Limit.Algorithm.Counts() {
		return fmt.Sprintf("%d in %v", n, r.Limit.Window)
	}
	return fmt.Sprintf("%d at %d/s, window %v", n, r.Limit.Rate.Micro/1e6, r.Window)
}

// An override has its own numbers, and inherits the others from the tier's value.
func TestOverrideStandsAboveTheTierValue(t *testing.T) {
	s := MustParse(t, `rules:
  - id: a
    tier: pro
    match: {endpoint_regex: x}
    params: {limit: 10, window: 10}
    override: {whole: {limit: 70, window: 7}, burst: {capacity: 90}}
`).With([]Entry{tierOf("pro", ParamsText{Limit: 50})})
	r := s.Rule("a")
	if got := limitAt(r, "whole", 0); got != bucket(70, 10e6, 0) {
		t.Errorf("%+v", got)
	}
	if got := limitAt(r, "burst", 0); got != bucket(90, 5e6, 0) {
		t.Errorf("%+v", got)
	}
}

func TestTierValueOfAnUnknownTier(t *testing.T) {
	v := tierOf("gold", ParamsText{Limit: 5})
	for file, want := range map[string]string{
		"rules: []\n": "not in the rules: no rule names a tier, and the file assigns none",
		"tiers: {b: {match: {api_key_pattern: x}}, stated: {}}\nrules: [{id: a, tier: c, match: {endpoint_regex: x}, " + someLimit + "}]\n": `not in the rules: no rule names the tier "gold", and the file assigns no request to it; known here: b, c`,
	} {
		s := MustParse(t, file)
		if err := s.CheckEntry(&v); !errors.Is(err, ErrNotThere) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if got := s.With([]Entry{v}); len(got.Rules()) != len(s.Rules()) {
			t.Error("a value without effect changed the rules")
		}
	}
	assigned := MustParse(t, "tiers: {gold: {match: {api_key_pattern: x}}}\nrules: []\n")
	if err := assigned.CheckEntry(&v); err != nil {
		t.Errorf("a tier that requests are assigned to: %v", err)
	}
}
