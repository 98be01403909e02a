package pattern

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Pattern is an exact text or a glob. In a glob * stands for any run of characters, also an empty
// one, and ? for exactly one character. Everything else stands for itself (so [ and \ are
// ordinary). Case matters. The zero value matches only the empty text.
type Pattern struct {
	Text   string
	Glob   bool
	Prefix string // the common beginning of all matches
}

// OfKey reads a pattern for API keys. It is a glob if it contains * or ?.
func OfKey(text string) Pattern {
	return New(text, strings.ContainsAny(text, "*?"))
}

// OfValue reads a pattern for another attribute. It is a glob only if it contains *, because ? is
// common in values.
func OfValue(text string) Pattern {
	return New(text, strings.Contains(text, "*"))
}

// New returns the pattern with this text. A glob must contain * or ?.
func New(text string, glob bool) Pattern {
	if !glob {
		return Pattern{Text: text, Prefix: text}
	}
	return Pattern{Text: text, Glob: true, Prefix: text[:strings.IndexAny(text, "*?")]}
}

// AnyKey reports whether the pattern matches every text, or every text from some length on, such as
// ?*. For a list of API keys that means all of them.
func (p Pattern) AnyKey() bool {
	return strings.Contains(p.Text, "*") && strings.Trim(p.Text, "*?") == ""
}

// Match reports whether the pattern matches s.
func (p Pattern) Match(s string) bool {
	if !p.Glob {
		return p.Text == s
	}
	return strings.HasPrefix(s, p.Prefix) && globMatch(p.Text[len(p.Prefix):], s[len(p.Prefix):])
}

// globMatch matches greedily. A later * makes all earlier choices irrelevant, so it suffices to go
// back to the last one. It takes at most len(glob)*len(s) steps.
func globMatch(glob, s string) bool {
	g, i := 0, 0
	star, resume := -1, 0 // index after the last *, and where its run ends so far
	for i < len(s) {
		_, width := utf8.DecodeRuneInString(s[i:])
		switch {
		case g < len(glob) && glob[g] == '*':
			g++
			star, resume = g, i
		case g < len(glob) && glob[g] == '?':
			g++
			i += width
		case g < len(glob) && glob[g] == s[i]:
			g++
			i++
		case star >= 0:
			_, width = utf8.DecodeRuneInString(s[resume:])
			resume += width
			g, i = star, resume
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}

// Overlaps reports whether a text may match both of two globs of the same length: the parts before
// their first * must be compatible, and so must the parts behind their last one. If one of them has
// no *, it may return true although no text matches both.
func (p Pattern) Overlaps(other Pattern) bool {
	a, b := []rune(p.Text), []rune(other.Text)
	if !headsMeet(a, b) {
		return false
	}
	slices.Reverse(a)
	slices.Reverse(b)
	return headsMeet(a, b)
}

// headsMeet compares two globs up to the first * of either.
func headsMeet(a, b []rune) bool {
	for i := range min(len(a), len(b)) {
		switch {
		case a[i] == '*' || b[i] == '*':
			return true
		case a[i] != b[i] && a[i] != '?' && b[i] != '?':
			return false
		}
	}
	return true
}

// Compare orders patterns: exact ones first, then longer ones.
func Compare(a, b Pattern) int {
	if a.Glob != b.Glob {
		if b.Glob {
			return -1
		}
		return 1
	}
	return cmp.Compare(utf8.RuneCountInString(b.Text), utf8.RuneCountInString(a.Text))
}
