package rules

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const explainFile = `
defaults: {params: {limit: 1, window: 1}}
rules:
  - {id: everyone}
  - {id: pro, tier: pro, replaces: [everyone]}
  - {id: writes, match: {attributes: {method: [POST, "P?T*", {regex: "^DEL"}]}}, override: {"vip*": {limit: 9, until: "2030-01-01T00:00:00Z", reason: launch, by: ann}}}
  - {id: nobody, match: {attributes: {user: ""}}}
  - {id: orders, match: {endpoint_regex: "^/v1/orders"}, replaces: [everyone, pro]}
blacklist: [{pattern: "bad*", until: "2030-01-01T00:00:00.0005Z", reason: abuse, by: bob}]
whitelist: ["vip_free"]
`

// in2030 is the instant at which the entries of explainFile end.
func in2030() int64 { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli() }

func TestExplain(t *testing.T) {
	s := MustParse(t, explainFile)
	for _, c := range []struct {
		name  string
		attrs map[string]string
		nowMS int64
		list  string
		want  []string // why not, of each rule
	}{
		{"nothing", nil, 0, "", []string{"", `the request does not have tier "pro"`,
			`the request does not have method "POST" or "P?T*" or regex "^DEL"`, "", `the request does not have endpoint regex "^/v1/orders"`}},
		{"replaced", map[string]string{"tier": "pro", "user": "secret", "method": "DELETE"}, 0, "", []string{"rule pro replaces it", "", "",
			`the request does not have user (absent or empty)`, `the request does not have endpoint regex "^/v1/orders"`}},
		{"replaced by two", map[string]string{"tier": "pro", "endpoint": "/v1/orders?x", "method": "PUT"}, 0, "", []string{"rule pro replaces it", "rule orders replaces it", "", "", ""}},
		{"block list", map[string]string{"api_key": "bad1", "method": "POST"}, in2030(), "blacklisted bad* abuse bob", []string{"", `the request does not have tier "pro"`, "", "", `the request does not have endpoint regex "^/v1/orders"`}},
		{"a block that is over", map[string]string{"api_key": "bad1", "method": "POST"}, in2030() + 1, "", []string{"", `the request does not have tier "pro"`, "", "", `the request does not have endpoint regex "^/v1/orders"`}},
		{"allow list", map[string]string{"api_key": "vip_free", "method": "POST"}, 0, "whitelisted vip_free  ", []string{"", `the request does not have tier "pro"`, "", "", `the request does not have endpoint regex "^/v1/orders"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := s.Explain(AttributesOf(c.attrs), c.nowMS)
			list := ""
			if e.Entry != nil {
				list = fmt.Sprintf("%s %s %s %s", e.List, e.Entry.Pattern, e.Entry.Reason, e.Entry.By)
			}
			if list != c.list {
				t.Errorf("list %q, want %q", list, c.list)
			}
			for i, want := range c.want {
				if got := e.Rules[i].WhyNot(); got != want || e.Rules[i].Matched != (want == "") {
					t.Errorf("rule %s: %q, want %q", e.Rules[i].Rule.ID, got, want)
				}
			}
			if strings.Contains(fmt.Sprintf("%+v", e.Rules), "secret") {
				t.Error("the explanation names what the request carries")
			}
		})
	}
}

// An override holds until its instant and not at it; the next one by rank follows.
func TestEntriesExpire(t *testing.T) {
	s := MustParse(t, `
rules:
  - id: a
    params: {limit: 1, window: 1}
    override:
      "vip_1": {limit: 5, until: "2030-01-01T00:00:00Z"}
      "vip_*": {limit: 4, until: "2030-01-01T01:00:00+01:00"}
      "vip*": {limit: 3}
whitelist: [{pattern: x, until: "2030-01-01T00:00:00Z"}, x2]
blacklist: [{pattern: y, until: "2020-01-01T00:00:00Z"}, {pattern: y, until: "2030-01-01T00:00:00Z"}, {pattern: "y", until: "2029-01-01T00:00:00Z"}, {pattern: z}, {pattern: z, until: "2020-01-01T00:00:00Z"}]
`)
	end := in2030()
	for _, c := range []struct {
		key      string
		now      int64
		capacity int64
		list     ListKind
	}{
		{"vip_1", end - 1, 5, None}, {"vip_1", end, 3, None}, {"vip_2", end - 1, 4, None}, {"vip_2", end, 3, None},
		{"x", end - 1, 1, Whitelisted}, {"x", end, 1, None}, {"x2", end, 1, Whitelisted},
		{"y", end - 1, 1, Blacklisted}, {"y", end, 1, None}, {"z", end, 1, Blacklisted},
	} {
		attrs := map[string]string{"api_key": c.key}
		list, matched := s.Match(AttributesOf(attrs), c.now, nil)
		if list != c.list {
			t.Errorf("%s at %d: %v, want %v", c.key, c.now-end, list, c.list)
		}
		if list == None && matched[0].Limit != bucket(c.capacity, c.capacity*1e6, 0) {
			t.Errorf("%s at %d: %+v, want %d", c.key, c.now-end, matched[0].Limit, c.capacity)
		}
	}
	if e := s.Blacklist(); len(e) != 5 || e[1].UntilMS != end || len(s.Whitelist()) != 2 {
		t.Errorf("%+v", e)
	}
}
