package envoyimport

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func drawText(r *rand.Rand, most int) string {
	letters := []rune{'a', 'b', '-', ']', '^', '\\', 'é', '*', '\n'}
	var b strings.Builder
	for range r.IntN(most + 1) {
		b.WriteRune(letters[r.IntN(len(letters))])
	}
	return b.String()
}

// TestOthersAreAllOtherValues compares with the definition, for spans that need one
// regular expression and for those that need several.
func TestOthersAreAllOtherValues(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	several := 0
	for round := range 300 {
		prefix := drawText(r, 2)
		var spans []span
		for range 1 + r.IntN(60) {
			if s := (span{prefix + drawText(r, 4), r.IntN(3) == 0}); s != (span{prefix, true}) && !slices.Contains(spans, s) {
				spans = append(spans, s)
			}
		}
		var all []*regexp.Regexp
		for _, text := range others(prefix, spans) {
			if n := utf8.RuneCountInString(text); n > maxRegexChars {
				t.Fatalf("a regular expression of %d characters", n)
			}
			all = append(all, regexp.MustCompile(text))
		}
		if len(all) > 1 {
			several++
		}
		for range 200 {
			value := drawText(r, 6)
			want := strings.HasPrefix(value, prefix) && !slices.ContainsFunc(spans, func(s span) bool { return s.covers(span{value, false}) })
			got := slices.ContainsFunc(all, func(re *regexp.Regexp) bool { return re.MatchString(value) })
			if got != want {
				t.Fatalf("round %d: %q among others than %v of %q: %t\n%v", round, value, spans, prefix, got, all)
			}
		}
	}
	if several < 30 {
		t.Errorf("only %d of the rounds needed several regular expressions", several)
	}
}
