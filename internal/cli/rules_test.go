package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aliquot/rules"
)

const badRules = `rules:
  - id: a
    params: {capcity: 300, refill_rate: 100}
  - {id: b, replaces: [a, c], enforcement: stict, params: {limit: -1, window: 60}, tier: t}
`

// badLines are the problems of badRules, without the file's name.
var badLines = []string{
	`:3:14: unknown field "capcity" in params; did you mean "capacity"?`,
	`:4:27: replaces: no rule has the id "c"; known here: a`,
	`:4:44: unknown enforcement "stict"; did you mean "strict"?`,
	`:4:67: limit must be positive; write at least 1`,
}

func writeRules(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "my rules.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// exactly compares both streams and the exit code.
func (r result) exactly(t *testing.T, code int, out, err string) {
	t.Helper()
	if r.code != code || r.out != out || r.err != err {
		t.Errorf("exit %d, want %d\nout:\n%s\nwant:\n%s\nerr:\n%s\nwant:\n%s", r.code, code, r.out, out, r.err, err)
	}
}

func TestValidatePrintsPlaces(t *testing.T) {
	file := writeRules(t, badRules)
	command(t, "", "rules", "validate", file).exactly(t, exitError,
		file+strings.Join(badLines, "\n"+file)+"\n", "aliquot: "+file+" is not valid; problems: 4\n")
	command(t, badRules, "rules", "validate", "-").exactly(t, exitError,
		"<stdin>"+strings.Join(badLines, "\n<stdin>")+"\n", "aliquot: <stdin> is not valid; problems: 4\n")
	command(t, "rules: 5", "rules", "validate", "-").exactly(t, exitError,
		"<stdin>:1:8: rules must be a list, found a number; write it in brackets, like [a, b]\n", "aliquot: <stdin> is not valid; problems: 1\n")
}

func TestValidateAsJSON(t *testing.T) {
	file := writeRules(t, badRules)
	got := command(t, "", "rules", "validate", file, "-o", "json")
	var v struct {
		File           string
		Valid          bool
		Rules, Omitted int
		Problems       []rules.Problem
	}
	if err := json.Unmarshal([]byte(got.out), &v); err != nil {
		t.Fatalf("%v: %s", err, got.out)
	}
	if got.code != exitError || v.Valid || v.File != file || v.Rules != 0 || v.Omitted != 0 || len(v.Problems) != len(badLines) {
		t.Errorf("exit %d, %+v", got.code, v)
	}
	for i, p := range v.Problems {
		if p.String() != file+badLines[i] {
			t.Errorf("problem %d: %v, want %s", i, p, badLines[i])
		}
	}
	// The words that scripts look for.
	got.want(t, exitError, `"valid":false`, `"problems":[{"file":"`+file+`","line":3,"column":14,"message":"unknown field`, `"warnings":[]`)
	command(t, "", "rules", "validate", file, "-o", "yaml").want(t, exitError, "valid: false", "line: 3", "column: 14")
}

func TestValidateAValidFile(t *testing.T) {
	const warned = "rules:\n  - {id: a, params: {limit: 1, window: 1}}\nwhitelist: [\"*\"]\n"
	const warning = `<stdin>:3:13: whitelist "*" allows every API key: no rule applies to one`
	command(t, someRules, "rules", "validate", "-").exactly(t, exitOK, "<stdin>: 1 rules, valid\n", "")
	command(t, "rules: []", "rules", "validate", "-").exactly(t, exitOK, "<stdin>: 0 rules, valid\n", "")
	command(t, warned, "rules", "validate", "-").exactly(t, exitOK, "<stdin>: 1 rules, valid\n", "warning: "+warning+"\n")
	file, warnedFile := writeRules(t, someRules), writeRules(t, warned)
	command(t, "", "rules", "validate", file, "-o", "json").exactly(t, exitOK,
		`{"file":"`+file+`","valid":true,"rules":1,"problems":[],"omitted":0,"warnings":[]}`+"\n", "")
	command(t, "", "rules", "validate", warnedFile, "-o", "json").want(t, exitOK, `"valid":true`, `"warnings":[{"file":"`+warnedFile+`","line":3,"column":13,`)
}

func TestValidateManyProblems(t *testing.T) {
	many := "rules: []\nblacklist:\n" + strings.Repeat("  - 1\n", 30)
	got := command(t, many, "rules", "validate", "-")
	if lines := strings.Split(got.out, "\n"); got.code != exitError || len(lines) != 22 || lines[20] != "and 10 more" {
		t.Errorf("exit %d\n%s", got.code, got.out)
	}
	got.want(t, exitError, "problems: 30")
	command(t, many, "rules", "validate", "-", "-o", "json").want(t, exitError, `"omitted":10`)
}

func TestValidateUsage(t *testing.T) {
	file := writeRules(t, someRules)
	for _, args := range [][]string{{}, {file, file}, {file, "-o", "xml"}, {file, "--strict"}} {
		got := command(t, "", append([]string{"rules", "validate"}, args...)...)
		got.want(t, exitUsage, "--help")
		if got.out != "" {
			t.Errorf("%v: printed %s", args, got.out)
		}
	}
	dir := t.TempDir()
	command(t, "", "rules", "validate", dir).want(t, exitError, "rules file", dir)
	command(t, "", "rules", "validate", filepath.Join(dir, "none.yaml")).want(t, exitError, fmt.Sprintf("open %s", filepath.Join(dir, "none.yaml")))
}

// The rules that the product itself starts with are valid, say strict and have no warnings.
func TestValidateOurOwnRules(t *testing.T) {
	for _, file := range []string{"../dev/rules.yaml", "../../deploy/local/rules.yaml"} {
		command(t, "", "rules", "validate", file).exactly(t, exitOK, file+": 1 rules, valid\n", "")
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), "enforcement: strict") {
			t.Errorf("%s: %v\n%s", file, err, text)
		}
	}
}

// A text that no message can carry is refused before it is sent, with its place: the transport's error names neither.
func TestRulesThatCannotBeSent(t *testing.T) {
	const nobody = "127.0.0.1:1"
	for _, verb := range []string{"apply", "plan"} {
		command(t, "rules: []\n# caf\xe9\n", "rules", verb, "-", "--addr", nobody).
			exactly(t, exitError, "", "aliquot: the rules were refused, nothing changed:\n<stdin>:2:6: the file is not UTF-8 here; save it as UTF-8\n")
		command(t, strings.Repeat("#", rules.MaxFileBytes+1), "rules", verb, "-", "--addr", nobody).
			exactly(t, exitError, "", "aliquot: the rules were refused, nothing changed:\n<stdin>:1:1: the file has 4194305 bytes; a rules file has at most 4194304\n")
		command(t, strings.Repeat("#", 9<<20), "rules", verb, "-", "--addr", nobody).
			exactly(t, exitError, "", "aliquot: rules file <stdin>: it has more than 8388608 bytes; a rules file has at most 4194304\n")
	}
}
