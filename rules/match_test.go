package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"aliquot/rules/document"
)

const matchFile = `
tiers:
  pro: {params: {limit: 20, window: 1}}
defaults: {params: {limit: 10, window: 1}}
rules:
  - {id: everyone}
  - {id: pro, tier: pro}
  - {id: gold, tier: gold}
  - {id: prod-keys, match: {api_key_pattern: "sk_prod_*"}}
  - {id: one-key, match: {api_key_pattern: "sk_prod_1"}}
  - {id: four, match: {api_key_pattern: "sk_????"}}
  - {id: orders, match: {endpoint_regex: "^/v1/orders.*"}}
  - {id: suffix, match: {endpoint_regex: "/items$"}}
  - {id: fold, match: {endpoint_regex: "(?i)^/ADMIN"}}
  - {id: alternatives, match: {endpoint_regex: "^/a|/b$"}}
  - {id: posts, match: {attributes: {method: POST}}}
  - {id: endpoint-exact, match: {attributes: {endpoint: /v2/x}}}
  - {id: question, match: {attributes: {q: "a?"}}}
  - {id: question-glob, match: {attributes: {q: "a?*"}}}
  - {id: nobody, match: {attributes: {user: ""}}}
  - {id: with-user, match: {attributes: {user: "?*"}}}
  - {id: all-of, tier: pro, match: {api_key_pattern: "sk_*", endpoint_regex: "^/v1", attributes: {method: "P*", "org": "[x]"}}}
whitelist: ["sk_internal_*", "both"]
blacklist: ["sk_revoked_*", "sk_internal_bad", "both"]
`

func ids(matched []Matched) []string {
	out := []string{}
	for _, m := range matched {
		out = append(out, m.Rule.ID)
	}
	return out
}

func TestMatch(t *testing.T) {
	s := MustParse(t, matchFile)
	// everyone and nobody hold for any request without a user; only what is added is named.
	for _, c := range []struct {
		name  string
		attrs map[string]string
		list  ListKind
		want  string
	}{
		{"nothing", nil, None, "everyone nobody"},
		{"tier", map[string]string{"tier": "pro"}, None, "everyone pro nobody"},
		{"tier that stands nowhere under tiers", map[string]string{"tier": "gold"}, None, "everyone gold nobody"},
		{"tier is exact", map[string]string{"tier": "Pro"}, None, "everyone nobody"},
		{"key glob", map[string]string{"api_key": "sk_prod_22"}, None, "everyone prod-keys nobody"},
		{"key exact", map[string]string{"api_key": "sk_prod_1"}, None, "everyone prod-keys one-key nobody"},
		{"one character each", map[string]string{"api_key": "sk_äöü€"}, None, "everyone four nobody"},
		{"endpoint prefix", map[string]string{"endpoint": "/v1/orders/5"}, None, "everyone orders nobody"},
		{"anchored", map[string]string{"endpoint": "/x/v1/orders"}, None, "everyone nobody"},
		{"unanchored", map[string]string{"endpoint": "/x/items?page=2"}, None, "everyone suffix nobody"},
		{"the query does not count", map[string]string{"endpoint": "/x?next=/items"}, None, "everyone nobody"},
		{"nor the fragment", map[string]string{"endpoint": "/v2/x#/items"}, None, "everyone endpoint-exact nobody"},
		{"case folded", map[string]string{"endpoint": "/admin/x"}, None, "everyone fold alternatives nobody"},
		{"second alternative", map[string]string{"endpoint": "/x/b"}, None, "everyone alternatives nobody"},
		{"attribute", map[string]string{"method": "POST"}, None, "everyone posts nobody"},
		{"? without * is literal in attributes", map[string]string{"q": "a?"}, None, "everyone question question-glob nobody"},
		{"? with * is not", map[string]string{"q": "abc"}, None, "everyone question-glob nobody"},
		{"empty is absent", map[string]string{"user": ""}, None, "everyone nobody"},
		{"not empty", map[string]string{"user": "u"}, None, "everyone with-user"},
		{"all conditions", map[string]string{"tier": "pro", "api_key": "sk_a", "endpoint": "/v1/z", "method": "PUT", "org": "[x]", "user": "u"}, None, "everyone pro with-user all-of"},
		{"all but one", map[string]string{"tier": "pro", "api_key": "sk_a", "endpoint": "/v1/z", "method": "PUT", "org": "x", "user": "u"}, None, "everyone pro with-user"},
		{"whitelist", map[string]string{"api_key": "sk_internal_1"}, Whitelisted, ""},
		{"blacklist", map[string]string{"api_key": "sk_revoked_1"}, Blacklisted, ""},
		{"exact in one, glob in the other", map[string]string{"api_key": "sk_internal_bad"}, Blacklisted, ""},
		{"both", map[string]string{"api_key": "both"}, Blacklisted, ""},
		{"odd values", map[string]string{"api_key": "}{\x00\r\n*", "__proto__": "{a}"}, None, "everyone nobody"},
	} {
		t.Run(c.name, func(t *testing.T) {
			list, matched := s.Match(AttributesOf(c.attrs), 0, nil)
			if got := strings.Join(ids(matched), " "); list != c.list || got != c.want {
				t.Errorf("%v: %s, %q; want %s, %q", c.attrs, list, got, c.list, c.want)
			}
		})
	}
}

func TestMatchAppliesOverrides(t *testing.T) {
	s := MustParse(t, `rules:
  - {id: a, params: {limit: 10, window: 10}, override: {"vip*": {limit: 99, window: 1}}}
  - {id: b, params: {limit: 10, window: 10}}
`)
	_, matched := s.Match(AttributesOf(map[string]string{"api_key": "vip1"}), 0, make([]Matched, 5))
	if len(matched) != 2 || matched[0].Limit != bucket(99, 99e6, 0) || matched[0].Window != 1e9 ||
		matched[1].Limit != bucket(10, 1e6, 0) || matched[1].Window != 10e9 {
		t.Errorf("%+v", matched)
	}
}

func TestListKindNames(t *testing.T) {
	if got := fmt.Sprint(None, Whitelisted, Blacklisted); got != "none whitelisted blacklisted" {
		t.Error(got)
	}
}

func TestZeroSetMatchesNothing(t *testing.T) {
	var s Set
	if list, matched := s.Match(AttributesOf(map[string]string{"api_key": "a"}), 0, nil); list != None || len(matched) != 0 {
		t.Errorf("%v %v", list, matched)
	}
	if s.Rule("a") != nil || len(s.Rules()) != 0 {
		t.Error("the zero set has rules")
	}
}

// tenThousand is a file of MaxRules rules: per tenant, per tier and endpoint, and a
// few for everyone.
func tenThousand() string {
	var b strings.Builder
	b.WriteString("defaults: {params: {capacity: 10, refill_rate: 1}}\nrules:\n")
	for i := range document.MaxRules {
		switch {
		case i%1000 == 0:
			fmt.Fprintf(&b, "  - {id: r%d}\n", i)
		case i%2 == 0:
			fmt.Fprintf(&b, "  - {id: r%d, match: {api_key_pattern: \"sk_t%d_*\"}}\n", i, i)
		default:
			fmt.Fprintf(&b, "  - {id: r%d, tier: pro, match: {endpoint_regex: \"^/v1/s%d/.*\"}}\n", i, i)
		}
	}
	return b.String()
}

func TestTenThousandRules(t *testing.T) {
	s := MustParse(t, tenThousand())
	_, matched := s.Match(AttributesOf(map[string]string{"api_key": "sk_t4242_x", "tier": "pro", "endpoint": "/v1/s777/z"}), 0, nil)
	want := []string{"r0", "r777", "r1000", "r2000", "r3000", "r4000", "r4242", "r5000", "r6000", "r7000", "r8000", "r9000"}
	if got := ids(matched); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func BenchmarkMatchTenThousandRules(b *testing.B) {
	s := MustParse(b, tenThousand())
	attrs := AttributesOf(map[string]string{"api_key": "sk_t4242_x", "tier": "pro", "endpoint": "/v1/s777/z", "method": "GET"})
	buf := make([]Matched, 0, 32)
	b.ReportAllocs()
	for b.Loop() {
		_, buf = s.Match(attrs, 0, buf)
	}
}

func BenchmarkMatchOneRule(b *testing.B) {
	s := MustParse(b, "rules: [{id: a, match: {api_key_pattern: \"sk_*\"}, params: {limit: 1, window: 1}}]")
	attrs := AttributesOf(map[string]string{"api_key": "sk_t4242_x", "endpoint": "/v1/s777/z"})
	buf := make([]Matched, 0, 4)
	b.ReportAllocs()
	for b.Loop() {
		_, buf = s.Match(attrs, 0, buf)
	}
}

func BenchmarkKeyHash(b *testing.B) {
	r := MustParse(b, "rules: [{id: a, params: {limit: 1, window: 1}}]").Rule("a")
	attrs := AttributesOf(map[string]string{"api_key": "sk_t4242_x"})
	hasher := NewKeyHasher([]byte("0123456789abcdef0123456789abcdef"))
	dst := make([]byte, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		dst = KeyValues(r, attrs, dst[:0])
		hasher.Key("default", dst)
	}
}

func BenchmarkParseTenThousandRules(b *testing.B) {
	text := []byte(tenThousand())
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Parse("r", text); err != nil {
			b.Fatal(err)
		}
	}
}
