package rules

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"aliquot/rules/document"
)

// worstFiles are the largest files of each kind that an attacker could make to hurt, and
// the largest that is accepted.
func worstFiles() map[string]string {
	fill := func(part string) string { return strings.Repeat(part, MaxFileBytes/len(part)-10) }
	many := func(format string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	return map[string]string{
		"100000 rules":             "defaults: {params: {limit: 1, window: 1}}\nrules:\n" + many("- {id: r%d}\n", 100_000),
		"100000 rules on one line": "defaults: {params: {limit: 1, window: 1}}\nrules: [" + many("{id: r%d},", 100_000) + "]",
		"ten thousand mixed rules": mixedRules(),
		"a full blacklist":         "rules: []\nblacklist:\n" + many("- {pattern: \"sk_%d*\", until: \"2030-01-01T00:00:00Z\"}\n", document.MaxListed),
		"comments":                 "rules: []\n" + fill("#\n"),
		"empty lines":              "rules: []\n" + fill("\n"),
		"commas":                   "rules: [" + fill(",") + "]",
		"short words":              "whitelist: [" + fill("a,") + "]",
		"brackets":                 fill("["),
		"dashes":                   fill("- "),
		"question marks":           fill("? "),
		"colons":                   fill(": "),
		"quotes":                   fill(`"`),
		"backslashes":              `rules: "` + fill(`\\`) + `"`,
		"one long word":            fill("a"),
		"one long block":           "rules: |\n" + fill(" a\n"),
		"lines of a text":          "rules: \"" + fill("a\n "),
		"fields of a rule":         "rules: [{" + many("f%d: 1, ", 150_000) + "}]",
		"the same field":           "rules:\n - id: a\n" + strings.Repeat("   id: a\n", 100_000),
		"aliases":                  "rules: []\na: &a [" + fill("*a,") + "]",
		"problems":                 "rules: []\nblacklist:\n" + many("- %d\n", document.MaxListed),
		"long regular expressions": "defaults: {params: {limit: 1, window: 1}}\nrules:\n" + many("- {id: r%d, match: {endpoint_regex: \"(a{9}){9}{9}x%[1]d\"}}\n", document.MaxRules),
		"globs of stars":           "rules: []\nblacklist:\n" + many("- \"%d"+strings.Repeat("*a", 30)+"\"\n", 40_000),
	}
}

// maxAllocated bounds what Parse may allocate for each byte of a file, of which it
// keeps a part at a time: the YAML library takes some hundred bytes for each token, and a
// token may be one byte.
const maxAllocated = 800

// However a file is made, to read or refuse it takes memory in its length only, and a
// refusal is short.
func TestReadingIsBounded(t *testing.T) {
	for name, text := range worstFiles() {
		t.Run(name, func(t *testing.T) {
			text = text[:min(len(text), MaxFileBytes)/16] // all of them take a minute
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, err := Parse("r", []byte(text))
			runtime.ReadMemStats(&after)
			if got := (after.TotalAlloc - before.TotalAlloc) / uint64(len(text)); got > maxAllocated {
				t.Errorf("%d bytes allocated for each of %d", got, len(text))
			}
			if err != nil && len(err.Error()) > 20_000 {
				t.Errorf("a refusal of %d bytes", len(err.Error()))
			}
		})
	}
}

// BenchmarkWorstFiles tells how long each takes.
func BenchmarkWorstFiles(b *testing.B) {
	for name, text := range worstFiles() {
		data := []byte(text[:min(len(text), MaxFileBytes)])
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				_, _, _ = Parse("r", data) // most of them are refused
			}
		})
	}
}
