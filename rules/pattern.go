package rules

import (
	"strings"
	"unicode/utf8"
)

// pattern is an exact text or a glob. In a glob * stands for any run of characters, also an empty
// one, and ? for exactly one character. Everything else stands for itself (so [ and \ are
// ordinary). Case matters. The zero value matches only the empty text.
type pattern struct {
	text   string
	glob   bool
	prefix string // the common beginning of all matches
}

// keyPattern reads a pattern for API keys. It is a glob if it contains * or ?.
func keyPattern(text string) pattern {
	return newPattern(text, strings.ContainsAny(text, "*?"))
}

// valuePattern reads a pattern for another attribute. It is a glob only if it contains *, because ?
// is common in values.
func valuePattern(text string) pattern {
	return newPattern(text, strings.Contains(text, "*"))
}

func newPattern(text string, glob bool) pattern {
	if !glob {
		return pattern{text: text, prefix: text}
	}
	return pattern{text: text, glob: true, prefix: text[:strings.IndexAny(text, "*?")]}
}

// anyKey reports whether the pattern matches every text, or every text from some length on, such as
// ?*. For a list of API keys that means all of them.
func (p pattern) anyKey() bool {
	return strings.Contains(p.text, "*") && strings.Trim(p.text, "*?") == ""
}

func (p pattern) match(s string) bool {
	if !p.glob {
		return p.text == s
	}
	return strings.HasPrefix(s, p.prefix) && globMatch(p.text[len(p.prefix):], s[len(p.prefix):])
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
