package rules

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// specification is the configuration that the specification shows.
func specification(t *testing.T) *Set {
	t.Helper()
	data, err := os.ReadFile("testdata/specification.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, warnings, err := Parse("specification.yaml", data)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	return s
}

// Its requests carry a key and a path, and name no tier.
func TestSpecificationWithoutTiers(t *testing.T) {
	s := specification(t)
	for _, c := range []struct {
		apiKey, endpoint string
		list             ListKind
		want             string
		limit            int64
	}{
		{"sk_prod_abc", "/v1/orders/7", None, "rule_001", 100},
		{"sk_prod_vip_001", "/v1/orders/7", None, "rule_001", 1000},
		{"sk_free_x", "/anything", None, "rule_002", 100},
		{"sk_internal_1", "/v1/orders/7", Whitelisted, "", 0},
		{"sk_revoked_1", "/v1/orders/7", Blacklisted, "", 0},
		{"sk_prod_abc", "/v2", None, "", 0},
	} {
		list, matched := s.Match(AttributesOf(map[string]string{"api_key": c.apiKey, "endpoint": c.endpoint}), 0, nil)
		if got := strings.Join(ids(matched), " "); list != c.list || got != c.want || got != "" && int64(matched[0].Limit.Capacity) != c.limit*1e6 {
			t.Errorf("%s %s: %v %v", c.apiKey, c.endpoint, list, matched)
		}
	}
}

const assignedFile = `
defaults: {params: {limit: 10, window: 1}}
tiers:
  pro: {match: {api_key_pattern: "sk_prod_*"}}
  vip: {match: {attributes: {api_key: ["sk_prod_1", "sk_prod_vip_*"]}}}
  partner: {match: {attributes: {org: acme}}}
rules:
  - {id: pro, tier: pro}
  - {id: vip, tier: vip}
  - {id: partner, tier: partner}
  - {id: gold, tier: gold}
  - {id: orders-pro, tier: pro, match: {endpoint_regex: "^/orders"}}
  - {id: orders-gold, tier: gold, match: {endpoint_regex: "^/orders"}}
  - {id: staff, match: {attributes: {tier: "staff-*"}}}
`

func TestTierOfARequest(t *testing.T) {
	s := MustParse(t, assignedFile)
	for _, c := range []struct {
		name    string
		attrs   map[string]string
		tier    string
		unknown bool
		want    string
	}{
		{"named", map[string]string{"tier": "gold"}, "gold", false, "gold"},
		{"named against its key", map[string]string{"tier": "gold", "api_key": "sk_prod_2"}, "gold", false, "gold"},
		{"assigned by a pattern", map[string]string{"api_key": "sk_prod_2"}, "pro", false, "pro"},
		{"assigned by the exact key", map[string]string{"api_key": "sk_prod_1"}, "vip", false, "vip"},
		{"assigned by the longer pattern", map[string]string{"api_key": "sk_prod_vip_1"}, "vip", false, "vip"},
		{"a key before an organisation", map[string]string{"api_key": "sk_prod_2", "org": "acme"}, "pro", false, "pro"},
		{"assigned by an organisation", map[string]string{"org": "acme"}, "partner", false, "partner"},
		{"none: a rule with another condition applies", map[string]string{"endpoint": "/orders"}, "", false, "orders-pro orders-gold"},
		{"none: a rule with no other condition does not", map[string]string{"endpoint": "/"}, "", false, ""},
		{"assigned: rules of other tiers do not apply", map[string]string{"api_key": "sk_prod_2", "endpoint": "/orders"}, "pro", false, "pro orders-pro"},
		{"unknown counts as none", map[string]string{"tier": "platinum", "endpoint": "/orders"}, "", true, "orders-pro orders-gold"},
		{"unknown, and assigned", map[string]string{"tier": "platinum", "api_key": "sk_prod_2"}, "pro", true, "pro"},
		{"empty is none, not unknown", map[string]string{"tier": "", "api_key": "sk_prod_2"}, "pro", false, "pro"},
		{"known to a match", map[string]string{"tier": "staff-1", "endpoint": "/orders"}, "staff-1", false, "staff"},
	} {
		attrs := AttributesOf(c.attrs)
		_, matched := s.Match(attrs, 0, nil)
		if got := strings.Join(ids(matched), " "); s.TierOf(attrs) != c.tier || s.UnknownTier(attrs) != c.unknown || got != c.want {
			t.Errorf("%s: tier %q, unknown %v, rules %q", c.name, s.TierOf(attrs), s.UnknownTier(attrs), got)
		}
		if e := s.Explain(attrs, 0); e.Tier != c.tier || slices.ContainsFunc(e.Rules, func(r Trace) bool { return r.Matched != slices.Contains(ids(matched), r.Rule.ID) }) {
			t.Errorf("%s is explained otherwise: %+v", c.name, e)
		}
	}
	if got := strings.Join(s.Tiers(), " "); got != "gold partner pro vip" || !s.HasTier("gold") || s.HasTier("staff-1") {
		t.Error(got)
	}
}

// A client that makes up tiers gets no bucket of its own for each.
func TestKeyHasTheTierOfTheRequest(t *testing.T) {
	const key = "defaults: {params: {limit: 10, window: 1}, key: [tier]}\nrules:\n  - {id: all}\n"
	s := MustParse(t, key+"  - {id: pro, tier: pro}\ntiers: {pro: {match: {api_key_pattern: \"sk_prod_*\"}}}\n")
	encoded := func(s *Set, attrs map[string]string) string {
		return string(KeyValues(s.Rule("all"), AttributesOf(attrs), nil))
	}
	pro, none := encoded(s, map[string]string{"tier": "pro"}), encoded(s, nil)
	if got := encoded(s, map[string]string{"api_key": "sk_prod_1"}); got != pro || got == none {
		t.Errorf("assigned: %q, named: %q", got, pro)
	}
	if got := encoded(s, map[string]string{"tier": "made up"}); got != none {
		t.Errorf("unknown: %q, none: %q", got, none)
	}
	if s := MustParse(t, key); encoded(s, map[string]string{"tier": "a"}) == encoded(s, map[string]string{"tier": "b"}) {
		t.Error("a file that knows no tier tells them apart as it would any attribute")
	}
}

func TestTiesAreRefused(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{`api_key_pattern: "sk_?rod_*"`, `api_key_pattern: "sk_p?od_*"`, "3:7: tiers b and a (line 2) may both get one request, and neither has the longer pattern about API keys"},
		{`api_key_pattern: "sk_1"`, `attributes: {api_key: [sk_2, sk_1]}`, "3:7: tiers b and a"},
		{`attributes: {org: acme}`, `attributes: {project: x}`, "3:7: tiers b and a"},
		{``, ``, "3:7: tiers b and a"},
		{`api_key_pattern: "sk_prod_*"`, `api_key_pattern: "sk_free_*"`, ""},
		{`api_key_pattern: "*_prod"`, `api_key_pattern: "*_free"`, ""},
		{`api_key_pattern: "sk_*"`, `api_key_pattern: "sk_prod_*"`, ""},
		{`api_key_pattern: "sk_1"`, `api_key_pattern: "sk_2"`, ""},
		{`api_key_pattern: "sk_*", attributes: {org: acme}`, `api_key_pattern: "sk_*", attributes: {org: globex}`, ""},
		{`attributes: {org: acme}`, `attributes: {org: [globex, initech]}`, ""},
		{`attributes: {org: acme}`, `api_key_pattern: "*"`, ""},
		{`endpoint_regex: "^/a/"`, `endpoint_regex: "^/b/"`, ""},
	} {
		file := "tiers:\n  a: {match: {" + c.a + "}}\n  b: {match: {" + c.b + "}}\nrules: []\n"
		_, _, err := Parse("rules.yaml", []byte(file))
		if got := textOf(err); c.want == "" && err != nil || !strings.HasPrefix(strings.TrimPrefix(got, "rules.yaml:"), c.want) {
			t.Errorf("%s and %s: %v", c.a, c.b, err)
		}
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestMatchOfATier(t *testing.T) {
	for file, want := range map[string]string{
		"tiers: {pro: {match: {attributes: {tier: gold}}}}\nrules: []\n":                                        "1:36: the match of a tier asks for the attribute tier, but it is for requests that name none; remove it",
		"tiers: {pro: {match: {api_key_pattern: a, attributes: {api_key: b}}}}\nrules: []\n":                    `1:9: tier pro can never apply: it asks for api_key "a" and for api_key "b"; remove one`,
		"tiers: {pro: {match: {attributes: {endpoint: \"/a?b\"}}}}\nrules: []\n":                                `1:36: tier pro can never apply: an endpoint is compared without its query, so nothing matches endpoint "/a?b"; cut it off at the ? or #`,
		"tiers: {pro: {match: {paths: 1}}}\nrules: []\n":                                                        `1:23: unknown field "paths" in match; known here: api_key_pattern, attributes, endpoint_regex`,
		"match: {api_key_pattern: x}\nrules: []\n":                                                              `1:1: unknown field "match" in the rules file; it belongs in a rule or a tier`,
		"tiers: {pro: {match: {api_key_pattern: a}, unit: concurrency}}\nrules: []\n":                           "1:44: unit concurrency belongs to algorithm concurrency, this is token_bucket; name another unit",
		"tiers: {pro: {match: {attributes: {org: [a, b]}}}, x: {match: {attributes: {org: [b]}}}}\nrules: []\n": "1:56: tiers x and pro (line 1) may both get one request, and neither has the longer pattern about API keys; make one of them longer, or give them different values of one attribute",
	} {
		_, _, err := Parse("f", []byte(file))
		if got := textOf(err); got != "f:"+want {
			t.Errorf("%s: %s", file, got)
		}
	}
}

func TestUnreachedRulesAreWarnedOf(t *testing.T) {
	const limit = "params: {limit: 1, window: 1}"
	for _, c := range []struct{ file, want string }{
		{"rules:\n  - {id: a, tier: pro, " + limit + "}\n", `f:2:5: only requests that name the tier "pro" reach rule a: it asks for nothing else, and no match under tiers assigns requests to "pro"; let callers send the attribute tier, or write tiers: {"pro": {match: {api_key_pattern: "..."}}}`},
		{"tiers: {pro: {match: {api_key_pattern: x}}}\nrules:\n  - {id: a, tier: pro, " + limit + "}\n", ""},
		{"rules:\n  - {id: a, tier: pro, match: {endpoint_regex: x}, " + limit + "}\n", ""},
		{"tiers: {free: {match: {api_key_pattern: \"sk_*\"}}}\nrules:\n  - {id: a, tier: pro, match: {api_key_pattern: \"sk_*\"}, " + limit + "}\n",
			`f:3:5: only requests that name the tier "pro" reach rule a: all others that it asks for belong to the tier "free", by its match; write one under tiers for "pro" too`},
		{"rules:\n  - {id: a, match: {api_key_pattern: \"sk_internal_*\"}, " + limit + "}\nwhitelist: [\"sk_int*\"]\n", `f:2:5: no request can reach rule a: "sk_int*" on the whitelist has all API keys that it asks for`},
		{"rules:\n  - {id: a, match: {attributes: {api_key: [x, y]}}, " + limit + "}\nblacklist: [x, y]\n", `f:2:5: no request can reach rule a: "y" on the blacklist has all API keys that it asks for`},
		{"rules:\n  - {id: a, match: {attributes: {api_key: [x, y]}}, " + limit + "}\nblacklist: [x]\n", ""},
		{"rules:\n  - {id: a, match: {api_key_pattern: x}, " + limit + "}\nblacklist: [{pattern: x, until: \"2030-01-01T00:00:00Z\"}]\n", ""},
		{"rules:\n  - {id: a, match: {api_key_pattern: \"sk_*\"}, " + limit + "}\nblacklist: [\"sk_?\"]\n", ""},
		{"rules:\n  - {id: a, match: {attributes: {api_key: {regex: \"^x\"}}}, " + limit + "}\nblacklist: [\"x*\"]\n", ""},
	} {
		_, warnings, err := Parse("f", []byte(c.file))
		var got []string
		for _, w := range warnings {
			got = append(got, w.String())
		}
		if strings.Join(got, "\n") != c.want || err != nil {
			t.Errorf("%s\n%q, %v", c.file, got, err)
		}
	}
}
