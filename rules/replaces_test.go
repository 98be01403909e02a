package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"aliquot/rules/document"
)

func TestReplaces(t *testing.T) {
	s := MustParse(t, `
defaults: {params: {limit: 1, window: 1}}
rules:
  - {id: everyone}
  - {id: partner, match: {attributes: {partner: "yes"}}, replaces: [pro, everyone]}
  - {id: pro, tier: pro, replaces: [everyone, orders]}
  - {id: orders, match: {endpoint_regex: "^/v1/orders"}}
  - {id: trial, match: {attributes: {trial: "yes"}}, shadow: true, replaces: [pro, old-trial]}
  - {id: old-trial, match: {attributes: {trial: "*"}}, shadow: true}
blacklist: [bad]
`)
	for _, c := range []struct {
		name  string
		attrs map[string]string
		want  string
	}{
		{"only the replaced one", nil, "everyone old-trial"},
		{"the replacing one does not match", map[string]string{"tier": "free"}, "everyone old-trial"},
		{"it does", map[string]string{"tier": "pro"}, "pro old-trial"},
		{"two at once", map[string]string{"tier": "pro", "endpoint": "/v1/orders"}, "pro old-trial"},
		{"a later one by an earlier one", map[string]string{"tier": "pro", "partner": "yes"}, "partner old-trial"},
		{"what is replaced replaces all the same", map[string]string{"tier": "pro", "partner": "yes", "endpoint": "/v1/orders"}, "partner old-trial"},
		{"not by way of one that does not match", map[string]string{"partner": "yes", "endpoint": "/v1/orders"}, "partner orders old-trial"},
		{"a shadow changes no answer", map[string]string{"tier": "pro", "trial": "yes"}, "pro trial"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, matched := s.Match(AttributesOf(c.attrs), 0, nil)
			if got := strings.Join(ids(matched), " "); got != c.want {
				t.Errorf("%v: %s, want %s", c.attrs, got, c.want)
			}
		})
	}
	if got := s.Rule("partner").Replaces; !slices.Equal(got, []string{"pro", "everyone"}) {
		t.Errorf("replaces %v", got)
	}
	if list, matched := s.Match(AttributesOf(map[string]string{"api_key": "bad", "tier": "pro"}), 0, nil); list != Blacklisted || len(matched) != 0 {
		t.Errorf("%v %v", list, matched)
	}
}

// A buffer used again must not remember who was replaced before.
func TestReplacesWithAUsedBuffer(t *testing.T) {
	s := MustParse(t, `
defaults: {params: {limit: 1, window: 1}}
rules:
  - {id: a}
  - {id: b, tier: pro, replaces: [a]}
  - {id: c}
`)
	var buf []Matched
	for range 3 {
		_, buf = s.Match(AttributesOf(map[string]string{"tier": "pro"}), 0, buf)
		if got := strings.Join(ids(buf), " "); got != "b c" {
			t.Fatalf("pro: %s", got)
		}
		_, buf = s.Match(nil, 0, buf)
		if got := strings.Join(ids(buf), " "); got != "a c" {
			t.Fatalf("others: %s", got)
		}
	}
}

// The longest chain there can be is no circle, and one more link makes it one.
func TestLongChainOfReplaces(t *testing.T) {
	var b strings.Builder
	b.WriteString("defaults: {" + someLimit + "}\nrules:\n")
	for i := range document.MaxRules - 1 {
		fmt.Fprintf(&b, "  - {id: r%d, match: {attributes: {a: [x, v%d]}}, replaces: [r%d]}\n", i, i, i+1)
	}
	open := b.String() + fmt.Sprintf("  - {id: r%d, match: {attributes: {a: [x]}}}\n", document.MaxRules-1)
	if _, matched := MustParse(t, open).Match(AttributesOf(map[string]string{"a": "x"}), 0, nil); len(matched) != 1 || matched[0].Rule.ID != "r0" {
		t.Errorf("%v", ids(matched))
	}
	closed := b.String() + fmt.Sprintf("  - {id: r%d, match: {attributes: {a: [x]}}, replaces: [r0]}\n", document.MaxRules-1)
	_, _, err := Parse("r", []byte(closed))
	want := "r:10002:59: rules replace each other in a circle (r0 -> r1 -> r2 -> r3 -> r4 -> ... -> r0), so that none would apply; remove this or another of them"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
