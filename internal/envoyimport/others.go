package envoyimport

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// span is a set of values: one value, or all that begin with a text.
type span struct {
	text   string
	prefix bool
}

// covers tells whether every value of other is in s.
func (s span) covers(other span) bool {
	return s == other || s.prefix && strings.HasPrefix(other.text, s.text)
}

// maxRegexChars is what one regular expression of a rules file may have.
const maxRegexChars = 512

// others are regular expressions for the values that begin with prefix and are in none
// of the spans: one, or several where it would be too long. Every span is within the
// prefix and none is all of it. RE2 has no negation, so they follow the spans letter by
// letter and let go where a value leaves them all.
func others(prefix string, spans []span) []string {
	f := forkAt(prefix, spans)
	whole := "(?s)^" + regexp.QuoteMeta(prefix) + f.leaving() + "$"
	if utf8.RuneCountInString(whole) <= maxRegexChars {
		return []string{whole}
	}
	out := []string{"(?s)^" + regexp.QuoteMeta(prefix) + group(f.away()) + "$"}
	for _, b := range f.branches {
		if !b.closed() {
			out = append(out, others(b.prefix, b.spans)...)
		}
	}
	return out
}

// fork is where values that begin with the same text part.
type fork struct {
	ends     bool // one of the spans is that text alone
	branches []branch
}

// branch is one next character of the spans.
type branch struct {
	next   rune
	prefix string
	spans  []span
}

// closed tells whether all values that begin so are within the spans.
func (b *branch) closed() bool { return slices.Contains(b.spans, span{b.prefix, true}) }

func forkAt(prefix string, spans []span) fork {
	var f fork
	for _, s := range spans {
		if len(s.text) == len(prefix) {
			f.ends = true
			continue
		}
		next, width := utf8.DecodeRuneInString(s.text[len(prefix):])
		at := slices.IndexFunc(f.branches, func(b branch) bool { return b.next == next })
		if at < 0 {
			at = len(f.branches)
			f.branches = append(f.branches, branch{next: next, prefix: s.text[:len(prefix)+width]})
		}
		f.branches[at].spans = append(f.branches[at].spans, s)
	}
	return f
}

// away matches the rests that leave the spans at once.
func (f *fork) away() []string {
	var choices []string
	if !f.ends {
		choices = append(choices, "") // the value ends here
	}
	if len(f.branches) == 0 {
		return append(choices, ".+")
	}
	var known strings.Builder
	for _, b := range f.branches {
		if strings.ContainsRune(`\]^-[`, b.next) {
			known.WriteByte('\\')
		}
		known.WriteRune(b.next)
	}
	return append(choices, "[^"+known.String()+"].*")
}

// leaving matches the rests that leave the spans somewhere.
func (f *fork) leaving() string {
	choices := f.away()
	for _, b := range f.branches {
		if !b.closed() {
			below := forkAt(b.prefix, b.spans)
			choices = append(choices, regexp.QuoteMeta(string(b.next))+below.leaving())
		}
	}
	return group(choices)
}

func group(choices []string) string { return "(?:" + strings.Join(choices, "|") + ")" }
