package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"aliquot/limit"
	"aliquot/rules/document"
	"aliquot/rules/pattern"
	"aliquot/rules/source"
)

// FuzzParse: any text gives either a Set of sound rules or problems with places in
// the file, the same each time, and never a panic.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal("no seed files", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(matchFile))
	for _, s := range []string{"rules: [", "rules:\n- id: |\n   a\n", "? ", "a: &x [*x]", "- - - -", "{{{{", "rules: [{id: a, params: {capacity: 1e999}}]", "\xef\xbb\xbf", "\"\\", "a:\n\t- b", "%", "!", "---\n...\n---",
		"rules: [{id: a, replaces: [b], params: {limit: 1, window: 1}}, {id: b, replaces: [a]}]", "defaults: {mode: queue, placement: home, borrow_wait: 1s}\nrules: []", explainFile} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, warnings, err := Parse("f", data)
		if err != nil {
			checkRefusal(t, data, s, warnings, err)
			return
		}
		if s == nil || len(warnings) > source.MaxProblems {
			t.Fatalf("no set, or %d warnings", len(warnings))
		}
		for _, r := range s.Rules() {
			checkRule(t, s, r)
		}
		checkReadsTheSame(t, data, s)
	})
}

// checkReadsTheSame writes what was read on one line, in quotes and brackets, and reads
// it again.
func checkReadsTheSame(t *testing.T, data []byte, s *Set) {
	written := inline(source.NewReader("f", document.PlaceOf).Read(data))
	again, _, err := Parse("f", []byte(written))
	if err != nil {
		t.Fatalf("%v\n%s", err, written)
	}
	if got, want := saysAll(again), saysAll(s); got != want {
		t.Fatalf("%s\nwant\n%s", got, want)
	}
}

// inline writes a value on one line.
func inline(n *source.Node) string {
	var parts []string
	switch n.Kind {
	case source.KindString:
		return source.Quote(n.Text)
	case source.KindMapping:
		for _, f := range n.Fields {
			parts = append(parts, source.Quote(f.Name)+": "+inline(f.Value))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case source.KindSequence:
		for _, item := range n.Items {
			parts = append(parts, inline(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return n.Text
}

// saysAll writes everything that a set says.
func saysAll(s *Set) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %v\n", s.Whitelist(), s.Blacklist())
	for _, r := range s.Rules() {
		shown := *r
		shown.conditions, shown.patterns = nil, pattern.Set{}
		fmt.Fprintf(&b, "%+v", shown)
		for i := range r.conditions {
			fmt.Fprintf(&b, " %s", &r.conditions[i])
		}
		b.WriteString("\n")
	}
	return b.String()
}

func checkRefusal(t *testing.T, data []byte, s *Set, warnings []Warning, err error) {
	var refused *Error
	if s != nil || warnings != nil || !errors.As(err, &refused) {
		t.Fatalf("a refusal with more: %v %v %v", s, warnings, err)
	}
	if n := len(refused.Problems); n == 0 || n > source.MaxProblems {
		t.Fatalf("%d problems", n)
	}
	lines := strings.Count(strings.ReplaceAll(string(data), "\r", "\n"), "\n") + 1
	for i, p := range refused.Problems {
		if p.Line < 1 || p.Line > lines || p.Column < 1 || p.Message == "" || p.File != "f" {
			t.Fatalf("odd place: %v of %d lines", p, lines)
		}
		if !utf8.ValidString(p.Message) {
			t.Fatalf("no message for a protobuf: %q", p.Message)
		}
		if i > 0 && refused.Problems[i-1].Line > p.Line {
			t.Fatalf("not in order:\n%v", err)
		}
	}
}

func checkRule(t *testing.T, s *Set, r *Rule) {
	limits := []limit.Limit{r.Limit}
	for _, o := range r.Overrides() {
		limits = append(limits, o.Limit)
	}
	for _, l := range limits {
		if l.Capacity < limit.Token || l.Capacity > limit.MaxTokens || l.Rate.Micro < 0 || l.Rate.Micro > 1e15 ||
			l.Rate.Frac < 0 || l.Rate.Frac >= 1e6 || l.Rate == (limit.Rate{}) != l.Algorithm.Counts() || l.Window%time.Microsecond != 0 ||
			l.Algorithm != document.AlgorithmOf(r.Algorithm) || l.Algorithm.Counts() != (l.Window > 0) {
			t.Fatalf("rule %s: limit %+v", r.ID, l)
		}
	}
	if !slices.Contains([]string{Strict, Elastic, Independent}, r.Enforcement) || !slices.Contains(document.Algorithms(), r.Algorithm) || r.Unit == "" || r.ShadowPPM < 0 || r.ShadowPPM > document.WholePPM || r.Queue && r.Algorithm != LeakyBucket || !slices.Contains([]string{Auto, Split, Home}, r.Placement) || (r.BorrowWait == 0) != (r.Placement == Split) {
		t.Fatalf("rule %+v", r)
	}
	for _, id := range r.Replaces {
		if s.Rule(id) == nil || id == r.ID {
			t.Fatalf("rule %s replaces %q", r.ID, id)
		}
	}
	if r.ID == "" || s.Rule(r.ID) != r || r.Window < document.MinWindow || r.Window > document.MaxWindow || r.Key == nil {
		t.Fatalf("rule %+v", r)
	}
}

// FuzzMatch: the index finds what trying every rule finds, and a glob matches what
// the same pattern written as a regular expression matches.
func FuzzMatch(f *testing.F) {
	f.Add("sk_*", "/v1/*", "^/v1/o.*", "vip?", "sk_1", "/v1/orders?x", "pro")
	f.Add("*", "", "(?i)^/A", "**a*b?", "a0b1", "/a", "")
	f.Add("?", "x*?*y", "^$", "[a]", "é", "x\x01y", "pro")
	f.Add("*aaaab", "ab*ab*", "b", "a?b*", "aaaaaaaaaab", "abab#", "Pro")
	f.Fuzz(func(t *testing.T, keyGlob, endpointGlob, regex, override, apiKey, endpoint, tier string) {
		for _, text := range []string{keyGlob, endpointGlob, regex, override, apiKey, endpoint, tier} {
			if !utf8.ValidString(text) {
				return // the service refuses it before
			}
		}
		data, err := json.Marshal(fuzzedFile(keyGlob, endpointGlob, regex, override))
		if err != nil {
			t.Fatal(err)
		}
		s, _, err := Parse("f", data)
		if err != nil {
			return
		}
		attrs := map[string]string{"api_key": apiKey, "endpoint": endpoint, "tier": tier}
		list, matched := s.Match(AttributesOf(attrs), 0, nil)
		if list != None {
			t.Fatalf("list %v", list)
		}
		want := []string{}
		of := s.subject(AttributesOf(attrs))
		for _, r := range s.Rules() {
			if unmet(r.conditions, &of) == nil {
				want = append(want, r.ID)
			}
		}
		if !slices.Equal(ids(matched), want) {
			t.Fatalf("found %v, want %v", ids(matched), want)
		}
		if got, want := slices.Contains(want, "key"), likeRegex(keyGlob, apiKey); got != want {
			t.Fatalf("glob %q on %q: %v", keyGlob, apiKey, got)
		}
		org := apiKey + tier
		_, matched = s.Match(AttributesOf(map[string]string{"org": org}), 0, nil)
		if got, want := slices.Contains(ids(matched), "list"), naiveAny(org, keyGlob, endpointGlob, regex); got != want {
			t.Fatalf("%q or %q or regex %q on %q: %v", keyGlob, endpointGlob, regex, org, got)
		}
		if got, want := limitAt(s.Rule("all"), apiKey, 0) == bucket(9, 9e6, 0), likeRegex(override, apiKey); got != want {
			t.Fatalf("override %q on %q: %v", override, apiKey, got)
		}
	})
}

// fuzzedFile is a rules file in JSON, which is YAML too.
func fuzzedFile(keyGlob, endpointGlob, regex, override string) map[string]any {
	match := func(id string, m map[string]any) map[string]any { return map[string]any{"id": id, "match": m} }
	return map[string]any{
		"defaults": map[string]any{"params": map[string]any{"limit": 1, "window": 1}},
		"rules": []any{
			map[string]any{"id": "all", "override": map[string]any{override: map[string]any{"limit": 9}}},
			match("key", map[string]any{"api_key_pattern": keyGlob}),
			match("endpoint", map[string]any{"attributes": map[string]any{"endpoint": endpointGlob}}),
			match("regex", map[string]any{"endpoint_regex": regex}),
			match("two", map[string]any{"api_key_pattern": keyGlob, "endpoint_regex": regex}),
			match("list", map[string]any{"attributes": map[string]any{"org": []any{keyGlob, endpointGlob, map[string]any{"regex": regex}}}}),
			map[string]any{"id": "tier", "tier": "pro", "match": map[string]any{"endpoint_regex": regex}},
		},
	}
}

// naiveAny tells whether a value matches one of two globs or a regular expression.
func naiveAny(value, glob1, glob2, regex string) bool {
	return valueMatches(glob1, value) || valueMatches(glob2, value) || regexp.MustCompile(regex).MatchString(value)
}

// likeRegex matches a key pattern by way of package regexp.
func likeRegex(glob, s string) bool {
	quoted := regexp.QuoteMeta(glob)
	quoted = strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(quoted)
	return regexp.MustCompile(`(?s)^` + quoted + `$`).MatchString(s)
}
