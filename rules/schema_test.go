package rules

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"aliquot/limit"
	"aliquot/rules/document"
)

// MustParse reads a file that has to be right.
func MustParse(t testing.TB, text string) *Set {
	t.Helper()
	s, _, err := Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatalf("refused:\n%v\n%s", err, text)
	}
	return s
}

// limitAt is the limit of an API key alone.
func limitAt(r *Rule, apiKey string, nowMS int64) limit.Limit {
	l, _ := r.LimitFor(apiKey, nowMS)
	return l
}

func bucket(capacity int64, micro, frac int64) limit.Limit {
	return limit.Limit{Capacity: limit.Tokens(capacity) * limit.Token, Rate: limit.Rate{Micro: micro, Frac: frac}}
}

func TestContractExample(t *testing.T) {
	data, err := os.ReadFile("testdata/contract.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, warnings, err := Parse("contract.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) > 0 {
		t.Errorf("warnings %v", warnings)
	}
	r := s.Rule("orders-pro")
	if r == nil || len(s.Rules()) != 1 || s.Rules()[0] != r || s.Rule("other") != nil {
		t.Fatalf("rules %v", s.Rules())
	}
	if r.Tier != "pro" || r.Algorithm != TokenBucket || !slices.Equal(r.Key, []string{"api_key"}) ||
		r.Limit != bucket(100, 1_670_000, 0) || r.Window != time.Minute || r.Enforcement != Strict || r.Placement != Split ||
		r.OnRedisFailure != FailLocal || !r.LocalCache || r.ShadowPPM != 0 || r.Version != 0 || r.Replaces != nil {
		t.Errorf("rule %+v", r)
	}
	if got := limitAt(r, "sk_prod_vip_001", 0); got != bucket(1000, 16_670_000, 0) {
		t.Errorf("override %v", got)
	}
	if got := limitAt(r, "sk_prod_2", 0); got != r.Limit {
		t.Errorf("not overridden %v", got)
	}
}

func TestInheritance(t *testing.T) {
	data, err := os.ReadFile("testdata/inheritance.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := MustParse(t, string(data))
	for _, want := range []struct {
		ID        string
		limit     limit.Limit
		window    time.Duration
		onFailure string
		cache     bool
		shadow    bool
		key       []string
	}{
		{"from-defaults", bucket(10, 1_000_000, 0), 10 * time.Second, FailOpen, true, true, []string{"user"}},
		{"from-tier", bucket(100, 1_666_666, 666_666), time.Minute, FailClosed, false, true, []string{"user"}},
		{"from-rule", bucket(7, 1_666_666, 666_666), 5 * time.Second, FailLocal, true, false, []string{}},
		{"unknown-tier", bucket(10, 1_000_000, 0), 10 * time.Second, FailOpen, true, true, []string{"user"}},
	} {
		r := s.Rule(want.ID)
		if r.Limit != want.limit || r.Window != want.window || r.OnRedisFailure != want.onFailure ||
			r.LocalCache != want.cache || r.ShadowPPM == document.WholePPM != want.shadow || !slices.Equal(r.Key, want.key) {
			t.Errorf("%s: %+v\nwant %+v", want.ID, r, want)
		}
	}
}

func TestBuiltInDefaults(t *testing.T) {
	r := MustParse(t, "rules: [{id: a, version: 12, params: {limit: 5, window: 1}}]").Rule("a")
	if r.Algorithm != TokenBucket || r.Enforcement != Elastic || r.Placement != Auto || r.BorrowWait != AutoBorrowWait || r.OnRedisFailure != FailLocal ||
		!r.LocalCache || r.ShadowPPM != 0 || !slices.Equal(r.Key, []string{"api_key"}) || r.Version != 12 {
		t.Errorf("%+v", r)
	}
}

// Every form in which a token bucket can be stated, and what levels make of each
// other.
func TestParams(t *testing.T) {
	for _, c := range []struct {
		name, defaults, params string
		want                   limit.Limit
		window                 time.Duration
	}{
		{"capacity and rate", "", "capacity: 100, refill_rate: 1.67", bucket(100, 1_670_000, 0), 60 * time.Second},
		{"window shown when the bucket fills in it", "", "capacity: 1000, refill_rate: 16.5, window: 60", bucket(1000, 16_500_000, 0), time.Minute},
		{"window that the bucket does not fill in", "", "capacity: 1000, refill_rate: 16.4, window: 60", bucket(1000, 16_400_000, 0), 61 * time.Second},
		{"window that contradicts the rate", "", "capacity: 10, refill_rate: 10, window: 60", bucket(10, 10_000_000, 0), time.Second},
		{"window beside a burst of its own", "", "limit: 600, window: 60, capacity: 10", bucket(10, 10_000_000, 0), time.Second},
		{"limit and window", "", "limit: 100, window: 60", bucket(100, 1_666_666, 666_666), time.Minute},
		{"capacity and window", "", "capacity: 3, window: 2", bucket(3, 1_500_000, 0), 2 * time.Second},
		{"limit is the burst of a rate", "", "limit: 5, refill_rate: 2", bucket(5, 2_000_000, 0), 3 * time.Second},
		{"burst above the limit", "", "capacity: 50, limit: 10, window: 10s", bucket(50, 1_000_000, 0), 50 * time.Second},
		{"one a day", "", "limit: 1, window: 1d", bucket(1, 11, 574_074), 24 * time.Hour},
		{"one in a hundred years", "", "limit: 1, window: 36525d", bucket(1, 0, 316), 36525 * 24 * time.Hour},
		{"largest", "", "capacity: 1000000000, refill_rate: 1000000000", bucket(1e9, 1e15, 0), time.Second},
		{"least rate", "", "capacity: 1, refill_rate: 0.000000000001", bucket(1, 0, 1), document.MaxWindow},
		{"rate exact to twelve places", "", "capacity: 1, refill_rate: 0.1234567890129", bucket(1, 123_456, 789_012), 9 * time.Second},
		{"no float in between", "", "capacity: 1, refill_rate: 999999999.999999999999", bucket(1, 999_999_999_999_999, 999_999), time.Second},
		{"whole numbers in other clothes", "", "capacity: 1e3, refill_rate: 10.0", bucket(1000, 10_000_000, 0), 100 * time.Second},

		{"rate over inherited window form", "limit: 100, window: 60", "refill_rate: 5", bucket(100, 5_000_000, 0), 20 * time.Second},
		{"capacity over inherited window form", "limit: 60, window: 60", "capacity: 9", bucket(9, 1_000_000, 0), 9 * time.Second},
		{"capacity over inherited rate form", "capacity: 60, refill_rate: 3", "capacity: 9", bucket(9, 3_000_000, 0), 3 * time.Second},
		{"limit replaces capacity and rate", "capacity: 10, refill_rate: 1, window: 60", "limit: 600", bucket(600, 10_000_000, 0), time.Minute},
		{"limit and capacity, as PUT /rules/tier writes", "capacity: 10, refill_rate: 1, window: 60", "limit: 600, capacity: 300", bucket(300, 10_000_000, 0), 30 * time.Second},
		{"capacity and rate replace limit and window", "limit: 600, window: 60", "capacity: 4, refill_rate: 2", bucket(4, 2_000_000, 0), 2 * time.Second},
		{"capacity and window replace the rate", "capacity: 10, refill_rate: 1", "capacity: 30, window: 10", bucket(30, 3_000_000, 0), 10 * time.Second},
		{"another window", "limit: 60, window: 60", "window: 10", bucket(60, 6_000_000, 0), 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := MustParse(t, "defaults: {params: {"+c.defaults+"}}\nrules: [{id: a, params: {"+c.params+"}}]").Rule("a")
			if r.Limit != c.want || r.Window != c.window {
				t.Errorf("got %+v window %v, want %+v window %v", r.Limit, r.Window, c.want, c.window)
			}
		})
	}
}

func TestOverridePrecedence(t *testing.T) {
	r := MustParse(t, `
rules:
  - id: a
    params: {limit: 1, window: 1}
    override:
      "sk_*": {limit: 2}
      "sk_vip_*": {limit: 3}
      "*_vip_ab": {limit: 4}
      "sk_vip_a": {limit: 5}
      "sk_????": {capacity: 6}
      "sk_vip_b": {capacity: 7, refill_rate: 9}
`).Rule("a")
	for key, want := range map[string]limit.Limit{
		"other":     bucket(1, 1_000_000, 0),
		"":          bucket(1, 1_000_000, 0),
		"sk_x":      bucket(2, 2_000_000, 0),
		"sk_vip_x":  bucket(3, 3_000_000, 0), // the longer pattern
		"sk_vip_ab": bucket(3, 3_000_000, 0), // as long as another: the first in the file
		"x_vip_ab":  bucket(4, 4_000_000, 0),
		"sk_vip_a":  bucket(5, 5_000_000, 0), // exact
		"sk_abcd":   bucket(6, 1_000_000, 0), // inherits the rule's rate
		"sk_vip_b":  bucket(7, 9_000_000, 0),
	} {
		if got := limitAt(r, key, 0); got != want {
			t.Errorf("%q: %v, want %v", key, got, want)
		}
	}
	if _, got := r.LimitFor("sk_x", 0); got != time.Second {
		t.Errorf("window %v", got)
	}
	patterns := []string{}
	for _, o := range r.Overrides() {
		patterns = append(patterns, o.Pattern)
	}
	want := []string{"sk_vip_a", "sk_vip_b", "sk_vip_*", "*_vip_ab", "sk_????", "sk_*"}
	if !slices.Equal(patterns, want) {
		t.Errorf("order %v, want %v", patterns, want)
	}
}

func TestEnforcementInherits(t *testing.T) {
	s := MustParse(t, `
defaults: {enforcement: strict, params: {limit: 1, window: 1}}
tiers:
  free: {enforcement: independent}
rules:
  - {id: strict}
  - {id: independent, tier: free}
  - {id: elastic, tier: free, enforcement: elastic}
`)
	for _, r := range s.Rules() {
		if r.Enforcement != r.ID {
			t.Errorf("rule %s is enforced as %s", r.ID, r.Enforcement)
		}
	}
}

// A file that is accepted although something in it has no effect, or one that may
// not be meant.
func TestWarnings(t *testing.T) {
	for text, want := range map[string]string{
		oneRule("params: {capacity: 5, limit: 9, refill_rate: 1}"):       "2:35: limit has no effect here: capacity is the burst and refill_rate the rate; remove it",
		oneRule("params: {limit: 5, window: 60, refill_rate: 10}"):       "2:32: refill_rate decides here: it fills the burst of 5 in 1s, not in 1m0s; remove window, or remove refill_rate",
		oneRule("params: {capacity: 10, window: 60, refill_rate: 10}"):   "2:36: refill_rate decides here: it fills the burst of 10 in 1s, not in 1m0s; remove window, or remove refill_rate",
		oneRule("key: [apikey], " + someLimit):                           `2:19: key names "apikey", which is no usual attribute; is "api_key" meant? An attribute that requests do not have gives all of them one bucket`,
		oneRule("key: [\"api_key \"], " + someLimit):                     `2:19: key names "api_key ", which is no usual attribute; is "api_key" meant? An attribute that requests do not have gives all of them one bucket`,
		oneRule("override: {k: {}}, " + someLimit):                       `2:24: the override of "k" states no number, so these API keys have the rule's limit; state one, or remove the override`,
		oneRule("key: [org], override: {vip: {limit: 9}}, " + someLimit): "2:36: the API keys of this override share their buckets with others, which have another limit; add api_key to the key of rule a",
		oneRule("key: [], cool_down: true, " + someLimit):                "2:5: cool_down and auto_block hold back whom the key names, and key: [] of rule a names every client: what one client does holds back all; name the attributes that distinguish clients",
		"rules: []\nwhitelist: [a, \"*\"]\n":                             `2:16: whitelist "*" allows every API key: no rule applies to one`,
	} {
		s, warnings, err := Parse("r", []byte(text))
		if err != nil || s == nil || len(warnings) != 1 || warnings[0].String() != "r:"+want {
			t.Errorf("%v, %v; want r:%s", warnings, err, want)
		}
	}
}

func TestRulesWithoutAnIndexWarn(t *testing.T) {
	text := "defaults: {" + someLimit + "}\nrules:\n"
	for i := range maxUnindexed + 1 {
		text += fmt.Sprintf("  - {id: r%d, match: {endpoint_regex: \"x%d\"}}\n", i, i)
	}
	want := "r:3:5: this and 200 other rules are tried for every request"
	if _, warnings, err := Parse("r", []byte(text)); err != nil || len(warnings) != 1 || !strings.HasPrefix(warnings[0].String(), want) {
		t.Errorf("%v, %v", warnings, err)
	}
	if _, warnings, err := Parse("r", []byte(strings.Replace(text, "\"x7\"", "\"^x7\"", 1))); err != nil || len(warnings) != 0 {
		t.Errorf("%v, %v", warnings, err)
	}
}

func TestAcceptedForms(t *testing.T) {
	for name, text := range map[string]string{
		"no rules":        "rules: []\n",
		"document marks":  "---\nrules: []\n...\n",
		"byte order mark": "\ufeffrules: []\n",
		"CRLF":            "rules:\r\n  - id: a\r\n    params: {limit: 1, window: 1}\r\n",
		"CR":              "rules:\r  - id: a\r    params: {limit: 1, window: 1}\r",
		"JSON":            `{"rules": [{"id": "a", "shadow": true, "params": {"limit": 1, "window": "1h30m"}}]}`,
		"tab in comment":  "\t# note\nrules: [] #\ttabs\n \t \n",
		"tab in quotes":   "rules: []\nwhitelist: [\"a b\"] \n",
		"list at parent":  "rules:\n- id: a\n  params:\n    limit: 1\n    window: 1\n",
		"block text":      "rules:\n  - id: >- # folded\n      abc\n    match:\n      endpoint_regex: |-\n        ^/v1\n    params: {limit: 1, window: 1}\n",
		"text over lines": "rules:\n  - id: a\n    match: {attributes: {a: \"x\n      y\", c: 'x\n      y'}}\n    params:\n      limit: 1 # c\n      # c\n      window: 1\n",
		"wide keys":       "rules: []\ntiers: {\"äöü\": {params: {}}, 日本: {shadow: true}, \"\\u00e9\": {}}\n",
		"empty settings":  "defaults: {}\ntiers: {}\nwhitelist: []\nblacklist: []\nrules: []\n",
		"no newline":      "rules: []",
		"odd keys":        "rules: [{id: a, params: {limit: 1, window: 1}, match: {attributes: {\"a b\": \"é*\", x: \"\"}}}]",
	} {
		t.Run(name, func(t *testing.T) { MustParse(t, text) })
	}
}
