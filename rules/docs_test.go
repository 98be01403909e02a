package rules

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"aliquot/rules/document"
)

// TestPagesAboutTheFile: every example is a file without a problem or a warning, every field is in an
// example, and the reference has every field and every word.
func TestPagesAboutTheFile(t *testing.T) {
	text, err := os.ReadFile("../docs/how-to/write-rules.md")
	if err != nil {
		t.Fatal(err)
	}
	reference, err := os.ReadFile("../docs/reference/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(examples) < 7 {
		t.Fatalf("%d examples", len(examples))
	}
	all := ""
	for i, example := range examples {
		all += example[1]
		if _, warnings, err := Parse("example", []byte(example[1])); err != nil || len(warnings) > 0 {
			t.Errorf("example %d: %v %v\n%s", i+1, err, warnings, example[1])
		}
	}
	var names []string
	for _, s := range document.Sections() {
		for _, f := range s.Fields {
			names = append(names, f.Name)
		}
	}
	for _, name := range names {
		if !regexp.MustCompile(`\b` + name + `:`).MatchString(all) {
			t.Errorf("no example has the field %s", name)
		}
		if !strings.Contains(string(reference), "| `"+name+"` |") {
			t.Errorf("the reference has no field %s", name)
		}
	}
	for _, word := range append(append(document.Algorithms(), document.Enforcements()...), append(document.Placements(), document.RedisFailures()...)...) {
		if !strings.Contains(string(reference), "`"+word+"`") {
			t.Errorf("the reference does not explain %s", word)
		}
	}
}
