package rules

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

const editFile = `# the shop
defaults: {params: {limit: 1, window: 1}}   # to begin with
tiers:
  free: {params: {limit: 100, window: 1m}}
  pro:          # the better plan
    params:
      capacity: 1000 # burst
      refill_rate: 16.67
      window: 60

rules:
  - id: orders # of the shop
    tier: pro
    override:
      # a friend
      "vip_1": {limit: 5}
      vip_2:
        limit: 6 # six
        window: 10
        until: "2020-01-01T00:00:00Z"
  # more
  - {id: flow, override: {a: {limit: 2}, "b": {limit: 3, until: "2020-01-01T00:00:00Z"}}}

# whom we know
whitelist: [x1, # first
  x2]
blacklist:
  # bad ones
  - bad_1
  - pattern: "bad_2" # abuse
    until: "2020-01-01T00:00:00Z"
    reason: >-
      many
      words
  - "bad_3"
# the end
`

// before2020 is a time, Unix milliseconds, when all entries of editFile still hold.
const before2020 = 1_000_000_000_000

// changeOf names the lines that an edit took out (-) and put in (+), in order, those
// taken out first.
func changeOf(before, after string) string {
	old, now := strings.SplitAfter(before, "\n"), strings.SplitAfter(after, "\n")
	common := make([][]int, len(old)+1) // the most lines that old[i:] and now[j:] share
	for i := range common {
		common[i] = make([]int, len(now)+1)
	}
	for i, line := range slices.Backward(old) {
		for j := len(now) - 1; j >= 0; j-- {
			common[i][j] = max(common[i+1][j], common[i][j+1])
			if line == now[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	var b strings.Builder
	for i, j := 0, 0; i < len(old) || j < len(now); {
		switch {
		case i < len(old) && j < len(now) && old[i] == now[j]:
			i, j = i+1, j+1
		case i < len(old) && common[i+1][j] == common[i][j]:
			b.WriteString("-" + old[i])
			i++
		default:
			b.WriteString("+" + now[j])
			j++
		}
	}
	return b.String()
}

func TestEdits(t *testing.T) {
	entry := func(pattern string) ListEntry { return ListEntry{Pattern: pattern} }
	noted := ListEntry{"new*", Note{UntilMS: in2030(), Reason: `said "no"`, By: "ann"}}
	for _, c := range []struct {
		name string
		edit func(text []byte) ([]byte, error)
		want string
	}{
		{"block", func(b []byte) ([]byte, error) { return Block(b, entry("new"), before2020) }, "+  - \"new\"\n"},
		{"block with a note", func(b []byte) ([]byte, error) { return Block(b, noted, before2020) },
			"+  - {pattern: \"new*\", until: \"2030-01-01T00:00:00Z\", reason: \"said \\\"no\\\"\", by: \"ann\"}\n"},
		{"block again", func(b []byte) ([]byte, error) { return Block(b, entry("bad_1"), before2020) }, "-  - bad_1\n+  - \"bad_1\"\n"},
		{"block the last again", func(b []byte) ([]byte, error) { return Block(b, entry("bad_3"), before2020) }, ""},
		{"block what was allowed", func(b []byte) ([]byte, error) { return Block(b, entry("x2"), before2020) }, "-whitelist: [x1, # first\n-  x2]\n+whitelist: [x1]\n+  - \"x2\"\n"},
		{"allow", func(b []byte) ([]byte, error) { return Allow(b, entry("new"), before2020) }, "-  x2]\n+  x2, \"new\"]\n"},
		{"allow what was blocked", func(b []byte) ([]byte, error) { return Allow(b, entry("bad_1"), before2020) }, "-  x2]\n+  x2, \"bad_1\"]\n-  - bad_1\n"},
		{"unlist", func(b []byte) ([]byte, error) { return Unlist(b, "bad_2", before2020) },
			"-  - pattern: \"bad_2\" # abuse\n-    until: \"2020-01-01T00:00:00Z\"\n-    reason: >-\n-      many\n-      words\n"},
		{"what ended goes", func(b []byte) ([]byte, error) { return Unlist(b, "x1", in2030()) },
			"-      vip_2:\n-        limit: 6 # six\n-        window: 10\n-        until: \"2020-01-01T00:00:00Z\"\n" +
				"-  - {id: flow, override: {a: {limit: 2}, \"b\": {limit: 3, until: \"2020-01-01T00:00:00Z\"}}}\n+  - {id: flow, override: {a: {limit: 2}}}\n" +
				"-whitelist: [x1, # first\n-  x2]\n+whitelist: [x2]\n" +
				"-  - pattern: \"bad_2\" # abuse\n-    until: \"2020-01-01T00:00:00Z\"\n-    reason: >-\n-      many\n-      words\n"},
		{"override", func(b []byte) ([]byte, error) {
			return SetOverride(b, "orders", "vip_3", ParamsText{Capacity: 9, RefillRate: "0.5"}, Note{}, before2020)
		}, "+      \"vip_3\": {capacity: 9, refill_rate: 0.5}\n"},
		{"another override", func(b []byte) ([]byte, error) {
			return SetOverride(b, "orders", "vip_2", ParamsText{Limit: 7, Window: 90 * time.Second}, Note{Reason: "launch"}, in2030())
		}, "-        limit: 6 # six\n-        window: 10\n-        until: \"2020-01-01T00:00:00Z\"\n+        limit: 7 # six\n+        window: 90\n+        reason: \"launch\"\n" +
			"-  - {id: flow, override: {a: {limit: 2}, \"b\": {limit: 3, until: \"2020-01-01T00:00:00Z\"}}}\n+  - {id: flow, override: {a: {limit: 2}}}\n" +
			"-  - pattern: \"bad_2\" # abuse\n-    until: \"2020-01-01T00:00:00Z\"\n-    reason: >-\n-      many\n-      words\n"},
		{"override in brackets", func(b []byte) ([]byte, error) {
			return SetOverride(b, "flow", "a", ParamsText{Capacity: 9, Window: 1500 * time.Millisecond}, Note{}, before2020)
		}, "-  - {id: flow, override: {a: {limit: 2}, \"b\": {limit: 3, until: \"2020-01-01T00:00:00Z\"}}}\n" +
			"+  - {id: flow, override: {a: {capacity: 9, window: 1.5}, \"b\": {limit: 3, until: \"2020-01-01T00:00:00Z\"}}}\n"},
		{"remove an override", func(b []byte) ([]byte, error) { return RemoveOverride(b, "orders", "vip_1", before2020) }, "-      \"vip_1\": {limit: 5}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, newline := range []string{"\n", "\r\n", "\r"} {
				before := "\ufeff" + strings.ReplaceAll(editFile, "\n", newline)
				got, err := c.edit([]byte(before))
				if err != nil {
					t.Fatalf("%q: %v", newline, err)
				}
				after := string(got)
				if others := strings.ReplaceAll(after, newline, ""); strings.ContainsAny(others, "\r\n") {
					t.Errorf("%q: other ends of lines in %q", newline, after)
				}
				after = strings.ReplaceAll(after, newline, "\n")
				if diff := changeOf("\ufeff"+editFile, after); diff != c.want {
					t.Errorf("%q:\n%s\nwant:\n%s\n%s", newline, diff, c.want, after)
				}
			}
		})
	}
}

// Every form that a container can have: what an edit makes of it, to the byte.
func TestEditsOfOddForms(t *testing.T) {
	block := func(b []byte) ([]byte, error) { return Block(b, ListEntry{Pattern: "n"}, before2020) }
	unlist := func(b []byte) ([]byte, error) { return Unlist(b, "a", before2020) }
	override := func(b []byte) ([]byte, error) {
		return SetOverride(b, "r", "k", ParamsText{Limit: 2}, Note{}, before2020)
	}
	remove := func(b []byte) ([]byte, error) { return RemoveOverride(b, "r", "k", before2020) }
	const rule = "params: {limit: 1, window: 1}"
	for name, c := range map[string]struct {
		edit         func(b []byte) ([]byte, error)
		before, want string
	}{
		"nothing applied yet":      {block, " \n", "rules: []\nblacklist: [\"n\"]\n"},
		"no list":                  {block, "rules: []", "rules: []\nblacklist: [\"n\"]"},
		"no list, with an end":     {block, "---\nrules: []\n...\n", "---\nrules: []\nblacklist: [\"n\"]\n...\n"},
		"no list, in braces":       {block, `{"rules": []}`, `{"rules": [], blacklist: ["n"]}`},
		"empty list":               {block, "blacklist: [ ] # none\nrules: []\n", "blacklist: [\"n\" ] # none\nrules: []\n"},
		"a comma at the end":       {block, "blacklist: [\n  a, # one\n]\nrules: []\n", "blacklist: [\n  a, \"n\", # one\n]\nrules: []\n"},
		"no indentation":           {block, "blacklist:\n- a\nrules: []\n", "blacklist:\n- a\n- \"n\"\nrules: []\n"},
		"no newline":               {block, "rules: []\nblacklist:\n  - a", "rules: []\nblacklist:\n  - a\n  - \"n\""},
		"dash on its own line":     {unlist, "rules: []\nblacklist:\n  -\n    pattern: a\n  - b\n", "rules: []\nblacklist:\n  - b\n"},
		"the only one":             {unlist, "rules: []\nblacklist: # bad\n  # worse\n  - a # a\nwhitelist: [b]\n", "rules: []\nblacklist: [] # bad\n  # worse\nwhitelist: [b]\n"},
		"the only one in brackets": {unlist, "rules: []\nblacklist: [ a, ] # bad\n", "rules: []\nblacklist: [] # bad\n"},
		"the first in brackets":    {unlist, "rules: []\nblacklist: [\"a\", b]\n", "rules: []\nblacklist: [b]\n"},
		"the last in brackets":     {unlist, "rules: []\nblacklist: [b, {pattern: 'a', reason: \"x, y]\"}]\n", "rules: []\nblacklist: [b]\n"},
		"all in brackets":          {unlist, "rules: []\nblacklist: [a, a]\nwhitelist: [a, b, a, a]\n", "rules: []\nblacklist: []\nwhitelist: [b]\n"},
		"wide characters before":   {unlist, "rules: []\nblacklist: [\"日本é\", a, \"ü\"]\n", "rules: []\nblacklist: [\"日本é\", \"ü\"]\n"},
		"a text over lines":        {block, "rules: []\nblacklist:\n  - \"a\n    b\"\n# end\n", "rules: []\nblacklist:\n  - \"a\n    b\"\n  - \"n\"\n# end\n"},
		"rule without overrides":   {override, "rules:\n- id: r\n  " + rule + " # x\n- {id: s, " + rule + "}\n", "rules:\n- id: r\n  " + rule + " # x\n  override: {\"k\": {limit: 2}}\n- {id: s, " + rule + "}\n"},
		"rule in braces":           {override, "rules: [{id: r, " + rule + "}]\n", "rules: [{id: r, " + rule + ", override: {\"k\": {limit: 2}}}]\n"},
		"empty overrides":          {override, "rules: [{id: r, " + rule + ", override: {}}]\n", "rules: [{id: r, " + rule + ", override: {\"k\": {limit: 2}}}]\n"},
		"the only override":        {remove, "rules:\n  - id: r\n    override:\n      k:\n        limit: 2\n    " + rule + "\n", "rules:\n  - id: r\n    override: {}\n    " + rule + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.edit([]byte(c.before))
			if err != nil || string(got) != c.want {
				t.Errorf("%v\n%s\nwant\n%s", err, got, c.want)
			}
		})
	}
}

func TestRefusedEdits(t *testing.T) {
	text := []byte(editFile)
	for _, c := range []struct {
		name string
		edit func() ([]byte, error)
		kind error // nil: *Error
		says string
	}{
		{"block everybody", func() ([]byte, error) { return Block(text, ListEntry{Pattern: "*"}, 0) }, nil, `would reject every request`},
		{"block nobody", func() ([]byte, error) { return Block(text, ListEntry{}, 0) }, nil, "empty"},
		{"a control character", func() ([]byte, error) { return Block(text, ListEntry{Pattern: "a\x7f"}, 0) }, nil, "control character"},
		{"over already", func() ([]byte, error) { return Allow(text, ListEntry{"a", Note{UntilMS: 5}}, 5) }, ErrBadEdit, "before now"},
		{"a reason too long", func() ([]byte, error) {
			return Allow(text, ListEntry{"a", Note{Reason: strings.Repeat("x", 513)}}, 5)
		}, nil, "longer"},
		{"on no list", func() ([]byte, error) { return Unlist(text, "who", 0) }, ErrNotThere, `"who" is on no list`},
		{"no rule", func() ([]byte, error) { return SetOverride(text, "order", "a", ParamsText{Limit: 1}, Note{}, 0) }, ErrNotThere, `did you mean "orders"?`},
		{"no override", func() ([]byte, error) { return RemoveOverride(text, "orders", "a", 0) }, ErrNotThere, `no override "a"`},
		{"override of zero", func() ([]byte, error) { return SetOverride(text, "orders", "a", ParamsText{Limit: -1}, Note{}, 0) }, nil, "positive"},
		{"not a number", func() ([]byte, error) {
			return SetOverride(text, "orders", "a", ParamsText{RefillRate: "1}, x: {"}, Note{}, 0)
		}, ErrBadEdit, "refill_rate"},
		{"an invalid file", func() ([]byte, error) { return Unlist([]byte("rules: 5"), "a", 0) }, nil, "rules:1:8"},
		{"not YAML", func() ([]byte, error) { return Unlist([]byte("rules: ["), "a", 0) }, nil, "rules:1:8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.edit()
			var refused *Error
			if got != nil || err == nil || !strings.Contains(err.Error(), c.says) || c.kind != nil && !errors.Is(err, c.kind) || c.kind == nil && !errors.As(err, &refused) {
				t.Errorf("%q, %v; want %v", got, err, c.says)
			}
		})
	}
	if string(text) != editFile {
		t.Error("an edit changed what it was given")
	}
}
