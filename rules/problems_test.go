package rules

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Each file is refused with exactly these problems, in this order.
func TestRefusals(t *testing.T) {
	const ok = "params: {limit: 1, window: 1}"
	rule := func(fields string) string { return "rules:\n  - {id: a, " + fields + "}\n" }
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		// The file as a whole.
		{"empty", "", []string{`1:1: the file is empty; write "rules: []" if nothing is to be limited`}},
		{"comments only", "# x\n\n", []string{`1:1: the file is empty; write "rules: []" if nothing is to be limited`}},
		{"no rules", "\nwhitelist: [a]\n", []string{`2:1: the file has no rules; write "rules: []" if nothing is to be limited`}},
		{"text", "hello", []string{"1:1: the rules file must be a mapping, found a text; write it in braces, like {name: value}, or indented below"}},
		{"list", "- a\n", []string{"1:1: the rules file must be a mapping, found a list; write it in braces, like {name: value}, or indented below"}},
		{"too large", strings.Repeat("#", MaxFileBytes+1), []string{"1:1: the file has 4194305 bytes; a rules file has at most 4194304"}},
		{"not UTF-8", "rules: []\nx: é\xff\n", []string{"2:5: the file is not UTF-8 here; save it as UTF-8"}},
		{"NUL", "rules: [\x00]\n", []string{"1:9: control character U+0000; remove it, or write it as an escape in a quoted text"}},
		{"tab indents", "rules:\n  \t- id: a\n", []string{"2:3: a tab cannot indent YAML; use spaces"}},
		{"two documents", "rules: []\n---\nrules: []\n", []string{"2:1: a rules file is one document; remove this --- and what belongs to another document"}},
		{"content after the end", "rules: []\n...\nblacklist: [a]\n", []string{"3:1: there is more after the end of the document (...); remove the three dots or what follows"}},
		{"too many parts", "whitelist: [" + strings.Repeat("a,", 360_000) + "]", []string{"1:700010: the file has too many parts; a rules file holds at most 700000 words and signs"}},
		{"syntax", "rules: [\n", []string{"1:8: not valid YAML: sequence end token ']' not found"}},
		{"indentation", "rules:\n  - id: a\n   shadow: true\n", []string{"3:4: not valid YAML: value is not allowed in this context"}},
		{"open quote", "rules: \"a", []string{"1:8: not valid YAML: could not find end character of double-quoted text"}},
		{"twice", "rules: []\nrules: []\n", []string{`2:1: "rules" is written twice here, first on line 1; remove one`}},
		{"unknown at top", "rulez: []\nrules: []\nversion: 3\n", []string{
			`1:1: unknown field "rulez" in the rules file; did you mean "rules"?`,
			`3:1: unknown field "version" in the rules file; known here: blacklist, defaults, rules, tiers, whitelist`}},
		{"rules not a list", "rules: {a: 1}\n", []string{"1:8: rules must be a list, found a mapping; write it in brackets, like [a, b]"}},
		{"rules absent", "rules:\n", []string{"1:1: rules must be a list, found nothing; write the value or remove the field"}},

		// YAML that can hide or multiply.
		{"anchor", "rules: &a []\n", []string{"1:8: YAML anchors (&) are not accepted; write the value out, and quote a text that begins with &"}},
		{"alias", "rules: []\nwhitelist: [*]\n", []string{"2:13: YAML aliases (*) are not accepted; write the value out, and quote a pattern that begins with *"}},
		{"merge", "rules: []\ndefaults:\n  <<: {}\n", []string{"3:3: YAML merge keys (<<) are not accepted; use defaults or tiers to share settings"}},
		{"tag", "rules: !!seq []\n", []string{"1:8: YAML tags (!) are not accepted; remove the tag, and quote a text that begins with !"}},
		{"directive", "%YAML 1.2\nrules: []\n", []string{"1:1: YAML directives (%) are not accepted; remove this line"}},
		{"explicit key", "? rules\n: []\n", []string{`1:1: explicit keys (?) are not accepted; write "key: value"`}},
		{"deep flow", "rules: " + strings.Repeat("[", 100000), []string{"1:39: nested too deeply; no setting of a rules file is more than 6 levels down"}},
		{"deep block", strings.Repeat("- ", 100000) + "a", []string{"1:65: nested too deeply; no setting of a rules file is more than 6 levels down"}},

		// Rules.
		{"not a rule", "rules:\n  - 5\n  -\n", []string{
			"2:5: a rule must be a mapping, found a number; write it in braces, like {name: value}, or indented below",
			"3:3: a rule must be a mapping, found nothing; write the value or remove the field"}},
		{"no id", "rules:\n  - " + ok + "\n", []string{"2:5: the rule has no id; add one, like id: orders-pro"}},
		{"empty id", "rules: [{id: \"\", " + ok + "}]", []string{"1:14: id is empty; write a value"}},
		{"number as id", "rules: [{id: 5, " + ok + "}]", []string{`1:14: id must be a text, found a number; put it in quotes: "5"`}},
		{"long id", "rules: [{id: " + strings.Repeat("a", 65) + ", " + ok + "}]", []string{"1:14: id is longer than 64 characters; shorten it"}},
		{"odd id", "rules: [{id: ../x, " + ok + "}]", []string{`1:14: id "../x" must be of letters, digits, dots, underscores and hyphens; change the others`}},
		{"same id", "rules:\n  - {id: a, " + ok + "}\n  - {id: a, " + ok + "}\n", []string{`3:10: rule id "a" is already used on line 2; ids must differ`}},
		{"unknown field", rule("shadows: true, " + ok), []string{`2:13: unknown field "shadows" in a rule; did you mean "shadow"?`}},
		{"bad bools", rule("shadow: yes, local_cache: 1, " + ok), []string{
			"2:21: shadow must be true or false, found a text; write true or false without quotes",
			"2:39: local_cache must be true or false, found a number"}},
		{"bad version", rule("version: -1, " + ok), []string{"2:22: version must be a whole number, 0 or more; write it like 3"}},
		{"empty tier", rule("tier: \"\", " + ok), []string{"2:19: tier is empty; write a value"}},
		{"bad key", rule("key: [a, a, 1, \"\"], " + ok), []string{
			`2:22: key names "a" twice; remove one`,
			`2:25: an attribute name of key must be a text, found a number; put it in quotes: "1"`,
			"2:28: an attribute name of key is empty; write a value"}},
		{"key not a list", rule("key: api_key, " + ok), []string{"2:18: key must be a list, found a text; write it in brackets, like [a, b]"}},

		// Known by name, for later versions.
		{"algorithms", "rules:\n  - {id: a, algorithm: leaky_bucket, " + ok + "}\n  - {id: b, algorithm: token_buckets, " + ok + "}\n", []string{
			"2:24: algorithm leaky_bucket is not available yet in this version; use token_bucket",
			`3:24: unknown algorithm "token_buckets"; did you mean "token_bucket"?`}},
		{"enforcement", rule("enforcement: independent, " + ok), []string{"2:26: enforcement independent is not available yet in this version; use strict"}},
		{"placement", rule("placement: home, borrow_wait: 150ms, " + ok), []string{
			"2:24: placement home is not available yet in this version; use split",
			"2:30: borrow_wait is not available yet in this version; remove it (it belongs to placement home)"}},
		{"replaces", rule("replaces: [b], " + ok), []string{"2:13: replaces is not available yet in this version; remove it and delete the other rule"}},
		{"mode", rule("mode: queue, " + ok), []string{"2:13: mode is not available yet in this version; remove it (it belongs to leaky_bucket)"}},
		{"on_redis_failure", rule("on_redis_failure: opened, " + ok), []string{`2:31: unknown on_redis_failure "opened"; did you mean "open"?`}},

		// Numbers.
		{"no limit", "rules:\n  - id: a\n    shadow: true\n", []string{"2:5: rule a: there is no limit here; write params: {capacity: 100, refill_rate: 10} or params: {limit: 100, window: 60}"}},
		{"rate alone", rule("params: {refill_rate: 5}"), []string{"2:13: rule a: refill_rate needs a capacity; add capacity (the burst) to params"}},
		{"no rate", rule("params: {capacity: 5}"), []string{"2:13: rule a: the limit has no rate; add refill_rate (requests a second) or window (seconds) to params"}},
		{"misspelt", rule("params: {capcity: 5}"), []string{`2:22: unknown field "capcity" in params; did you mean "capacity"?`}},
		{"zero", rule("params: {capacity: 0, refill_rate: 0, window: 0}"), []string{
			"2:32: capacity 0 would reject every request; write at least 1, or use blacklist to block API keys",
			"2:48: refill_rate 0 would reject every request once the burst is spent; write a rate above 0",
			"2:59: window is shorter than a second; write at least 1"}},
		{"negative", rule("params: {limit: -1, refill_rate: -0.5, window: -60}"), []string{
			"2:29: limit must be positive; write at least 1",
			"2:46: refill_rate must be positive; write a rate above 0",
			`2:60: window -60: not a duration; write seconds (60) or a number with a unit (ms, s, m, h, d), like "1m" or "1h30m"`}},
		{"too large numbers", rule("params: {capacity: 1000000001, refill_rate: 1000000000.1, window: 36526d}"), []string{
			"2:32: capacity is above the largest there is; write at most 1000000000",
			"2:57: refill_rate is above the fastest there is; write at most 1000000000 requests a second",
			"2:79: window is longer than 100 years; write at most 36525d"}},
		{"not decimal", rule("params: {capacity: 0x10, limit: 1_000, refill_rate: .inf, window: 1y}"), []string{
			"2:32: capacity 0x10: not a decimal number; write it like 100 or 1.67",
			"2:45: limit 1_000: not a decimal number; write it like 100 or 1.67",
			"2:65: refill_rate .inf: not a decimal number; write it like 100 or 1.67",
			`2:79: window 1y: not a duration; write seconds (60) or a number with a unit (ms, s, m, h, d), like "1m" or "1h30m"`}},
		{"octal, fraction, text, nothing", rule("params: {capacity: 010, limit: 1.5, refill_rate: \"5\", window: }"), []string{
			"2:32: capacity 010: a number with a leading zero means octal to some readers; remove the zero",
			"2:44: limit must be a whole number of requests; remove the fraction",
			"2:62: refill_rate must be a number, found a text; write it without quotes or units, like 100",
			`2:67: window must be a duration, found nothing; write seconds (60) or a text like "1m"`}},
		{"2^63 and beyond", rule("params: {capacity: 9223372036854775808, refill_rate: 1e400, window: 1e300}"), []string{
			"2:32: capacity is above the largest there is; write at most 1000000000",
			"2:66: refill_rate is above the fastest there is; write at most 1000000000 requests a second",
			`2:81: window 1e300: not a duration; write seconds (60) or a number with a unit (ms, s, m, h, d), like "1m" or "1h30m"`}},
		{"below the least rate", rule("params: {capacity: 1, refill_rate: 0.0000000000009}"), []string{"2:48: refill_rate is below the slowest there is; write at least 0.000000000001 requests a second"}},
		{"bad defaults say it once", "defaults: {params: {capacity: 0}}\nrules: [{id: a}, {id: b}]\n", []string{"1:31: capacity 0 would reject every request; write at least 1, or use blacklist to block API keys"}},
		{"null params", rule("params: "), []string{"2:13: params must be a mapping, found nothing; write the value or remove the field"}},

		// Matching.
		{"regex", rule("match: {endpoint_regex: \"(\"}, " + ok), []string{"2:37: endpoint_regex is not a regular expression (RE2 syntax): error parsing regexp: missing closing ): `(`"}},
		{"hostile regex", rule("match: {endpoint_regex: \"" + strings.Repeat("a{1000}", 20) + "\"}, " + ok), []string{"2:37: endpoint_regex compiles to too large a program; use smaller repeat counts"}},
		{"empty patterns", rule("match: {api_key_pattern: \"\", endpoint_regex: \"\"}, " + ok), []string{
			"2:38: api_key_pattern is empty; write a value",
			"2:58: endpoint_regex is empty; write a value"}},
		{"attributes", rule("match: {attributes: {a: 1, b: true, \"\": x, " + strings.Repeat("n", 65) + ": x}}, " + ok), []string{
			`2:37: the value of attribute a must be a text, found a number; put it in quotes: "1"`,
			`2:43: the value of attribute b must be a text, found true or false; put it in quotes: "true"`,
			"2:49: the attribute's name is empty; write a value",
			"2:56: the attribute's name is longer than 64 characters; shorten it"}},
		{"contradiction", rule("tier: pro, match: {attributes: {tier: free}}, " + ok), []string{`2:5: rule a can never apply: it asks for tier "pro" and "free"; remove one`}},
		{"contradicting glob", rule("match: {api_key_pattern: \"sk_*\", attributes: {api_key: pk_1}}, " + ok), []string{`2:5: rule a can never apply: api_key "pk_1" does not match "sk_*"; change one`}},

		// Overrides, tiers, lists.
		{"override twice", rule("override: {x: {limit: 1}, x: {limit: 2}}, " + ok), []string{`2:39: "x" is written twice here, first on line 2; remove one`}},
		{"bad overrides", rule("override: {\"\": {limit: 1}, y: {limit: 0}, z: 5}, " + ok), []string{
			"2:24: the override's API key pattern is empty; write a value",
			"2:51: limit 0 would reject every request; write at least 1, or use blacklist to block API keys",
			"2:58: an override must be a mapping, found a number; write it in braces, like {name: value}, or indented below"}},
		{"override without a rate", rule("params: {capacity: 5, refill_rate: 1}, override: {x: {limit: 5}}"), []string{`2:63: override "x" of rule a: the limit has no rate; add refill_rate (requests a second) or window (seconds) to params`}},
		{"tier fields", "tiers: {free: {id: x}, pro: 5}\nrules: []\n", []string{
			`1:16: unknown field "id" in a tier; known here: algorithm, borrow_wait, enforcement, key, local_cache, mode, on_redis_failure, params, placement, shadow`,
			"1:29: a tier must be a mapping, found a number; write it in braces, like {name: value}, or indented below"}},
		{"lists", "rules: []\nwhitelist: [1, \"\"]\nblacklist: [\"**\", a]\n", []string{
			`2:13: a pattern of whitelist must be a text, found a number; put it in quotes: "1"`,
			"2:16: a pattern of whitelist is empty; write a value",
			`3:13: blacklist "**" would reject every request; name the API keys to block`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, warnings, err := Parse("rules.yaml", []byte(c.text))
			var refused *Error
			if !errors.As(err, &refused) || s != nil || warnings != nil {
				t.Fatalf("got %v, %v, %v; want *Error alone", s, warnings, err)
			}
			want := "rules.yaml:" + strings.Join(c.want, "\nrules.yaml:")
			if got := refused.Error(); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func TestTooMany(t *testing.T) {
	var rules, overrides strings.Builder
	for i := range MaxRules + 1 {
		fmt.Fprintf(&rules, "  - {id: r%d}\n", i)
	}
	for i := range MaxOverrides + 1 {
		fmt.Fprintf(&overrides, "      k%d: {}\n", i)
	}
	for text, want := range map[string]string{
		"rules:\n" + rules.String(): "r:2:3: rules has 10001 entries; at most 10000 are accepted",
		"rules:\n  - id: a\n    params: {limit: 1, window: 1}\n    override:\n" + overrides.String(): "r:4:5: override has 1001 entries; at most 1000 are accepted",
		"rules: []\ntiers:\n" + strings.Repeat("  a: {}\n", 100000):                                  "r:1203:3: this mapping has too many keys; a mapping of a rules file holds at most 1200",
	} {
		_, _, err := Parse("r", []byte(text))

		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestProblemsAreCapped(t *testing.T) {
	text := "rules: []\nblacklist:\n" + strings.Repeat("  - 1\n", 5000)
	_, _, err := Parse("r", []byte(text))
	var refused *Error
	if !errors.As(err, &refused) || len(refused.Problems) != MaxProblems || refused.Omitted != 5000-MaxProblems {
		t.Fatalf("got %v", err)
	}
	if refused.Problems[0].Line != 3 || !strings.HasSuffix(err.Error(), "\nand 4980 more") {
		t.Errorf("got %v", err)
	}
}
