package rules

import (
	"fmt"
	"strings"
	"testing"
)

// TestRenamedRules: a file that drops a rule and has a new one of the same kind is warned of, because a rule under
// another id is another limit.
func TestRenamedRules(t *testing.T) {
	parse := func(ids ...string) *Set {
		text := "defaults: {params: {limit: 10, window: 1m}}\nrules:\n"
		for _, id := range ids {
			name, key, _ := strings.Cut(id, " ")
			text += fmt.Sprintf("  - {id: %s, key: [%s]}\n", name, key)
		}
		set, _, err := Parse("rules.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	many := func(prefix string) (ids []string) {
		for i := range maxRenamed + 5 {
			ids = append(ids, fmt.Sprintf("%s%d api_key", prefix, i))
		}
		return ids
	}
	for _, c := range []struct {
		name          string
		before, after *Set
		want          []string
	}{
		{"the first rules", nil, parse("a api_key"), nil},
		{"a rule is added", parse("a api_key"), parse("a api_key", "b api_key"), nil},
		{"a rule is removed", parse("a api_key", "b api_key"), parse("b api_key"), nil},
		{"another key", parse("a api_key"), parse("b ip"), nil},
		{"renamed", parse("a api_key, ip"), parse("b ip, api_key"), []string{`rule "a" is gone, and "b" is new: a renamed rule is a new limit`}},
		{"two to choose from", parse("a ip"), parse("b ip", "c ip"), []string{`rule "a" is gone, and "b", "c" are new`}},
		{"many to choose from", parse("a ip"), parse("b ip", "c ip", "d ip", "e ip"), []string{`rule "a" is gone, and "b", "c", "d", others are new`}},
	} {
		got := Renamed(c.before, c.after)
		if len(got) != len(c.want) || len(got) == 1 && !strings.HasPrefix(got[0], c.want[0]) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := Renamed(parse(many("a")...), parse(many("b")...)); len(got) != maxRenamed+1 || !strings.HasPrefix(got[maxRenamed], "more than 10 rules are gone") {
		t.Errorf("many rules: %q", got)
	}
}
