package rules

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"aliquot/rules/document"
	"aliquot/rules/source"
)

// Files that an attacker made to hurt, or a program saved in its own way: each is
// refused at the place where it begins to be one.
func TestHostileFiles(t *testing.T) {
	laughs := "rules: []\ndefaults:\n  a: &a [x, x]\n  b: &b [*a, *a]\n  c: [*b, *b]\n"
	checkRefusals(t, []refusal{
		{"a hundred thousand rules", "rules:\n" + strings.Repeat("- {id: a}\n", 100_000), []string{"2:1: rules has 100000 entries; at most 10000 are accepted"}},
		{"a hundred thousand rules in brackets", "rules: [" + strings.Repeat("{id: a},", 100_000) + "]", []string{"1:8: rules has 100000 entries; at most 10000 are accepted"}},
		{"billion laughs", laughs, []string{
			"3:6: YAML anchors (&) are not accepted; write the value out, and quote a text that begins with &",
			"4:6: YAML anchors (&) are not accepted; write the value out, and quote a text that begins with &",
			"4:10: YAML aliases (*) are not accepted; write the value out, and quote a pattern that begins with *",
			"4:14: YAML aliases (*) are not accepted; write the value out, and quote a pattern that begins with *",
			"5:7: YAML aliases (*) are not accepted; write the value out, and quote a pattern that begins with *",
			"5:11: YAML aliases (*) are not accepted; write the value out, and quote a pattern that begins with *"}},
		{"an unquoted glob", "rules: []\nblacklist:\n  - *_bad\n", []string{"3:5: YAML aliases (*) are not accepted; write the value out, and quote a pattern that begins with *"}},
		{"deep mappings", "rules: " + strings.Repeat("{a: ", 50_000), []string{"1:132: nested too deeply; no setting of a rules file is more than 6 levels down"}},
		{"deep indentation", stairs(100), []string{"33:33: nested too deeply; no setting of a rules file is more than 6 levels down"}},
		{"UTF-16", "\xff\xfer\x00u\x00", []string{"1:1: the file is not UTF-8 here; save it as UTF-8"}},
		{"overlong UTF-8", "rules: []\nwhitelist: [\"a\xc0\xafb\"]\n", []string{"2:15: the file is not UTF-8 here; save it as UTF-8"}},
		{"half a surrogate", "rules: [] # \xed\xa0\x80\n", []string{"1:13: the file is not UTF-8 here; save it as UTF-8"}},
		{"half a surrogate, escaped", `{rules: [], whitelist: ["\ud800"]}`, []string{"1:26: not valid YAML: not enough length for escaped UTF-16 surrogate pair"}},
		{"a byte order mark inside", "rules: []\n\ufeffwhitelist: []\n", []string{"2:1: control character U+FEFF; remove it, or write it as an escape in a quoted text"}},
		{"places after a byte order mark", "\ufeffrulez: []\n", []string{
			`1:1: unknown field "rulez" in the rules file; did you mean "rules"?`,
			`1:1: the file has no rules; write "rules: []" if nothing is to be limited`}},
		{"places with CRLF", "rules:\r\n  - id: a\r\n    params: {capacity: 0, window: 1}\r\n", []string{
			"3:24: capacity 0 would reject every request; write at least 1, limit: 0 to deny all that the rule matches, or use blacklist to block API keys"}},
		{"places with CR", "rules:\r  - id: a\r    params: {capacity: 0, window: 1}\r", []string{
			"3:24: capacity 0 would reject every request; write at least 1, limit: 0 to deny all that the rule matches, or use blacklist to block API keys"}},
		{"tabs", "rules:\n\t- id: a\n  - id: b\n \t  shadow: true\n", []string{
			"2:1: a tab cannot indent YAML; use spaces",
			"4:2: a tab cannot indent YAML; use spaces"}},
		{"tabs beside words", "rul\tes: []\nwhitelist:\t[a]\nblacklist: [\"b\" , c\t, \"d\te\"]\t# f\tg\n", []string{
			"1:1: a tab stands here or before it; use spaces, or quotes if it belongs to a text",
			"2:11: a tab stands here or before it; use spaces, or quotes if it belongs to a text",
			"3:19: a tab stands here or before it; use spaces, or quotes if it belongs to a text"}},
		{"terminal escapes", "rules: []\nwhitelist: [\"\x1b[2J\"]\n", []string{"2:14: control character U+001B; remove it, or write it as an escape in a quoted text"}},
	})
}

// stairs nests mappings in block style.
func stairs(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

// Every mapping of the schema reports a field that is written twice: the later one
// would win in silence.
func TestDuplicateFieldsEverywhere(t *testing.T) {
	text := `defaults: {shadow: true, shadow: false}
tiers: {t: {key: [], key: []}, t: {}}
rules:
  - id: a
    id: b
    match: {api_key_pattern: x, api_key_pattern: y, attributes: {m: x, m: y}}
    params: {limit: 1, limit: 2, window: 1}
    override: {k: {limit: 1, limit: 2}, k: {limit: 3}}
rules: []
`
	checkRefusals(t, []refusal{{"twice", text, []string{
		`1:26: "shadow" is written twice here, first on line 1; remove one`,
		`2:22: "key" is written twice here, first on line 2; remove one`,
		`2:32: "t" is written twice here, first on line 2; remove one`,
		`5:5: "id" is written twice here, first on line 4; remove one`,
		`6:33: "api_key_pattern" is written twice here, first on line 6; remove one`,
		`6:72: "m" is written twice here, first on line 6; remove one`,
		`7:24: "limit" is written twice here, first on line 7; remove one`,
		`8:30: "limit" is written twice here, first on line 8; remove one`,
		`8:41: "k" is written twice here, first on line 8; remove one`,
		`9:1: "rules" is written twice here, first on line 3; remove one`,
	}}})
}

// Regexes that are too large are not all compiled: that would take a minute.
func TestRegexBomb(t *testing.T) {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range source.MaxProblems {
		fmt.Fprintf(&b, "  - {id: r%d, match: {endpoint_regex: %q}, %s}\n", i, strings.Repeat("a{1000}", 71)+fmt.Sprint(i), someLimit)
	}
	_, _, err := Parse("r", []byte(b.String()))
	var refused *Error
	if !errors.As(err, &refused) || len(refused.Problems) != source.MaxProblems {
		t.Fatalf("got %v", err)
	}
	// Each compiles to some 71,000 instructions, of the million that a file has.
	const compiled = 15
	for i, p := range refused.Problems {
		want := "endpoint_regex compiles to too large a program; use smaller repeat counts"
		if i >= compiled {
			want = "endpoint_regex is one too many: all patterns of a file compile to at most 1000000 instructions; use fewer or simpler ones"
		}
		if p.Line != i+2 || p.Message != want {
			t.Errorf("problem %d: %v", i, p)
		}
	}
}

// Many regexes of an ordinary size are bounded by what they take together.
func TestTooManyRegexes(t *testing.T) {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range 250 {
		fmt.Fprintf(&b, "  - {id: r%d, match: {endpoint_regex: %q}, %s}\n", i, fmt.Sprintf("^/s%03d/%s", i, strings.Repeat("a{1000}", 4)), someLimit)
	}
	_, _, err := Parse("r", []byte(b.String()))
	if err == nil || !strings.Contains(err.Error(), "endpoint_regex is one too many") || strings.Contains(err.Error(), "too large a program") {
		t.Errorf("got %v", err)
	}
	if _, _, err := Parse("r", []byte(strings.Join(strings.SplitAfter(b.String(), "\n")[:200], ""))); err != nil {
		t.Errorf("two hundred: %v", err)
	}
}

// A misspelt reference in each of ten thousand rules is refused as fast as one, and
// no message lists ten thousand ids.
func TestManyUnknownReferences(t *testing.T) {
	var b strings.Builder
	b.WriteString("defaults: {" + someLimit + "}\nrules:\n")
	for i := range document.MaxRules {
		fmt.Fprintf(&b, "  - {id: r%d, replaces: [nobody]}\n", i)
	}
	_, _, err := Parse("r", []byte(b.String()))
	var refused *Error
	if !errors.As(err, &refused) || refused.Omitted < source.MaxCollected-source.MaxProblems {
		t.Fatalf("got %v", err)
	}
	for i, p := range refused.Problems {
		if p.Line != i+3 || len(p.Message) > 300 || !strings.HasSuffix(p.Message, " and 9975 more") {
			t.Errorf("problem %d: %v", i, p)
		}
	}
}
