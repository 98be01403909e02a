package rules

import (
	"slices"
	"strings"
	"testing"
	"time"

	"aliquot/limit"
	"aliquot/rules/document"
)

func parsed(t *testing.T, text string) *Set {
	t.Helper()
	set, _, err := Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestALimitOfZero is a wanted denial, and a limit of its own: what is nearer takes its place.
func TestALimitOfZero(t *testing.T) {
	set := parsed(t, `
rules:
  - {id: zero, match: {attributes: {a: b}}, params: {limit: 0}, override: {vip: {limit: 5, window: 60}}}
  - {id: counts, match: {attributes: {a: b}}, algorithm: fixed_window, params: {limit: 0, window: 60}}
  - {id: some, match: {attributes: {a: b}}, params: {limit: 5, window: 60}, override: {bad: {limit: 0}, free: {limit: unlimited}}}
  - {id: none, tier: gold, params: {limit: unlimited}}
`)
	for _, c := range []struct {
		ID, key   string
		capacity  limit.Tokens
		window    time.Duration
		unlimited bool
	}{
		{"zero", "", 0, time.Second, false}, {"zero", "vip", 5, time.Minute, false}, {"counts", "", 0, time.Minute, false},
		{"some", "", 5, time.Minute, false}, {"some", "bad", 0, time.Minute, false}, {"some", "free", limit.Tokens(document.MaxCapacity), time.Minute, true},
	} {
		_, matched := set.Match(Attributes{{"a", "b"}, {"api_key", c.key}}, 0, nil)
		at := slices.IndexFunc(matched, func(m Matched) bool { return m.Rule.ID == c.ID })
		if m := matched[at]; m.Limit.Capacity != c.capacity*limit.Token || m.Window != c.window || m.Unlimited != c.unlimited {
			t.Errorf("%s of %q: %+v", c.ID, c.key, m)
		}
	}
	if r := set.Rule("none"); !r.Unlimited || !set.HasUnlimited() {
		t.Errorf("%+v", r)
	}
	if r := set.With([]Entry{{EntryID: EntryID{Kind: TierEntry, Name: "gold"}, ParamsText: ParamsText{Limit: 7, Window: time.Minute}}}).Rule("none"); r.Unlimited || r.Limit.Capacity != 7*limit.Token {
		t.Errorf("under the value of its tier: %+v", r)
	}
}

// TestARuleThatDeniesAll is one that every request meets.
func TestARuleThatDeniesAll(t *testing.T) {
	for text, want := range map[string]string{
		"{id: a, params: {limit: 0}}":                                      "a",
		`{id: a, match: {attributes: {domain: "*"}}, params: {limit: 0}}`:  "a",
		`{id: a, match: {attributes: {domain: "d*"}}, params: {limit: 0}}`: "",
		"{id: a, tier: gold, params: {limit: 0}}":                          "",
		"{id: a, shadow: true, params: {limit: 0}}":                        "",
		"{id: a, unit: tokens, params: {limit: 0}}":                        "",
		"{id: a, params: {limit: 1, window: 1}}":                           "",
	} {
		if got := parsed(t, "rules:\n  - "+text+"\n").DeniesAll(); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestDescriptorsAreAddressed: a rule without conditions applies to those that carry its key.
func TestDescriptorsAreAddressed(t *testing.T) {
	set := parsed(t, `
defaults: {params: {limit: 5, window: 60}}
tiers: {gold: {match: {api_key_pattern: "au_*"}}}
rules:
  - {id: default}
  - {id: tenants, key: [tenant, domain]}
  - {id: everybody, key: []}
  - {id: all, key: [], match: {attributes: {domain: "*"}}}
  - {id: tiers, key: [tier]}
  - {id: pattern, key: [], match: {api_key_pattern: "sk_*"}}
`)
	for _, c := range []struct {
		attrs Attributes
		want  string
	}{
		{Attributes{{"domain", "d"}, {"path", "/"}}, "all"},
		{Attributes{{"domain", "d"}, {"tenant", "t"}}, "tenants all"},
		{Attributes{{"domain", "d"}, {"tenant", ""}}, "all"},
		{Attributes{{"domain", "d"}, {"api_key", "au_1"}}, "default all tiers"},
		{Attributes{{"domain", "d"}, {"api_key", "sk_1"}}, "default all pattern"},
	} {
		_, matched := set.Match(c.attrs, 0, nil)
		var got []string
		for _, m := range matched {
			if m.Rule.Addresses(c.attrs) {
				got = append(got, m.Rule.ID)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v: %v, want %s", c.attrs, got, c.want)
		}
	}
}

func TestReplacesInRequest(t *testing.T) {
	set := parsed(t, `
defaults: {params: {limit: 5, window: 60}}
rules:
  - {id: a}
  - {id: b, replaces_in_request: [a]}
  - {id: c, replaces_in_request: [a, d], shadow: true}
  - {id: d, shadow: true}
`)
	if got := set.Rule("b").ReplacesInRequest; !set.ReplacesInRequest() || len(got) != 1 || got[0] != "a" {
		t.Errorf("%v", got)
	}
	if got := set.Rule("c").ReplacesInRequest; len(got) != 1 || got[0] != "d" {
		t.Errorf("a rule in shadow replaces %v", got)
	}
	_, _, err := Parse("f", []byte("rules:\n  - {id: a, replaces_in_request: [a, bb], params: {limit: 1, window: 1}}\n"))
	if err == nil || !strings.Contains(err.Error(), "rule a cannot replace itself") || !strings.Contains(err.Error(), `replaces_in_request: no rule has the id "bb"`) {
		t.Error(err)
	}
}

func TestLimitOf(t *testing.T) {
	set := parsed(t, "rules:\n  - {id: a, request_limit: allow, params: {limit: 1, window: 1}}\n  - {id: b, algorithm: fixed_window, params: {limit: 1, window: 1}}\n")
	if l, why := set.Rule("a").LimitOf(10, time.Minute); why != "" || l.Capacity != 10*limit.Token || !set.Rule("a").RequestLimit || set.Rule("b").RequestLimit {
		t.Errorf("%+v %s", l, why)
	}
	if l, why := set.Rule("b").LimitOf(0, time.Minute); why != "" || l.Capacity != 0 || l.Window != time.Minute {
		t.Errorf("%+v %s", l, why)
	}
	if _, why := set.Rule("b").LimitOf(10, 1000*24*time.Hour); why == "" {
		t.Error("fixed windows of three years")
	}
}
