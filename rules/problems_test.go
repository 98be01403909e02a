package rules

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"aliquot/rules/document"
	"aliquot/rules/source"
)

// someLimit is a limit with nothing wrong in it.
const someLimit = "params: {limit: 1, window: 1}"

// oneRule is a file of one rule, whose fields begin on line 2 in column 13.
func oneRule(fields string) string { return "rules:\n  - {id: a, " + fields + "}\n" }

// refusal is a file that is refused with exactly these problems, in this order.
type refusal struct {
	name, text string
	want       []string
}

func checkRefusals(t *testing.T, table []refusal) {
	for _, c := range table {
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

func TestRefusedFiles(t *testing.T) {
	checkRefusals(t, []refusal{
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
	})
}

func TestRefusedYAML(t *testing.T) {
	checkRefusals(t, []refusal{
		{"anchor", "rules: &a []\n", []string{"1:8: YAML anchors (&) are not accepted; write the value out, and quote a text that begins with &"}},
		{"alias", "rules: []\nwhitelist: [*]\n", []string{"2:13: YAML aliases (*) are not accepted; write the value out, and quote a pattern that begins with *"}},
		{"merge", "rules: []\ndefaults:\n  <<: {}\n", []string{"3:3: YAML merge keys (<<) are not accepted; use defaults or tiers to share settings"}},
		{"tag", "rules: !!seq []\n", []string{"1:8: YAML tags (!) are not accepted; remove the tag, and quote a text that begins with !"}},
		{"directive", "%YAML 1.2\nrules: []\n", []string{"1:1: YAML directives (%) are not accepted; remove this line"}},
		{"explicit key", "? rules\n: []\n", []string{`1:1: explicit keys (?) are not accepted; write "key: value"`}},
		{"deep flow", "rules: " + strings.Repeat("[", 100000), []string{"1:39: nested too deeply; no setting of a rules file is more than 6 levels down"}},
		{"deep block", strings.Repeat("- ", 100000) + "a", []string{"1:65: nested too deeply; no setting of a rules file is more than 6 levels down"}},
	})
}

func TestTooMany(t *testing.T) {
	var rules, overrides strings.Builder
	for i := range document.MaxRules + 1 {
		fmt.Fprintf(&rules, "  - {id: r%d}\n", i)
	}
	for i := range document.MaxOverrides + 1 {
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
	if !errors.As(err, &refused) || len(refused.Problems) != source.MaxProblems || refused.Omitted != 5000-source.MaxProblems {
		t.Fatalf("got %v", err)
	}
	if refused.Problems[0].Line != 3 || !strings.HasSuffix(err.Error(), "\nand 4980 more") {
		t.Errorf("got %v", err)
	}
}
