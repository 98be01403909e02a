package rules

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// fieldNames are all fields that a rules file can have.
func fieldNames() []string {
	return strings.Fields(`rules defaults tiers whitelist blacklist id tier match api_key_pattern endpoint_regex attributes regex key
		algorithm params capacity limit refill_rate window mode unit enforcement placement borrow_wait on_redis_failure overrun request_limit local_cache
		shadow cool_down auto_block after most within for override until reason by pattern replaces replaces_in_request version`)
}

// Every example of the reference is a file without a problem or a warning, and every
// field of the file is in the text and in an example.
func TestReferenceOfTheFile(t *testing.T) {
	text, err := os.ReadFile("../docs/rules.md")
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
	for _, name := range fieldNames() {
		if !regexp.MustCompile(`\b` + name + `:`).MatchString(all) {
			t.Errorf("no example has the field %s", name)
		}
		if !strings.Contains(string(text), "`"+name+"`") && !strings.Contains(string(text), "`match."+name+"`") && name != "match" && name != "regex" {
			t.Errorf("the text does not explain the field %s", name)
		}
	}
	for _, word := range append(append(algorithms(), enforcements()...), append(placements(), redisFailures()...)...) {
		if !strings.Contains(string(text), "`"+word+"`") {
			t.Errorf("the text does not explain %s", word)
		}
	}
}

// The list above is the schema's: a field that is not on it would be missing from the
// reference unseen.
func TestFieldNamesAreTheSchemas(t *testing.T) {
	listed := map[string]bool{}
	for _, name := range fieldNames() {
		listed[name] = true
	}
	d := &decoder{problems: &problems{}}
	for name := range d.settingsSchema(&settings{}) {
		if !listed[name] {
			t.Errorf("the setting %s is not on the list", name)
		}
	}
	_, _, err := Parse("f", []byte("rules: [{nothing: 1}]\nnothing: 1\nwhitelist: [{nothing: 1}]\ntiers: {t: {params: {nothing: 1}}}\n"))
	for _, line := range strings.Split(err.Error(), "\n") {
		_, names, found := strings.Cut(line, "known here: ")
		if !found {
			continue
		}
		for name := range strings.SplitSeq(names, ", ") {
			if !listed[name] {
				t.Errorf("the field %s is not on the list", name)
			}
		}
	}
}
