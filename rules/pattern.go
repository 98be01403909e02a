package rules

import (
	"strings"
	"unicode/utf8"
)

// pattern is an exact text or a glob: * stands for any run of characters, also an
// empty one, ? for exactly one character, everything else for itself (so [ and \
// are ordinary). Case counts. The zero value matches the empty text only.
type pattern struct {
	text   string
	glob   bool
	prefix string // what every match begins with
}

// keyPattern reads a pattern about API keys: a glob if it contains * or ?.
func keyPattern(text string) pattern {
	return newPattern(text, strings.ContainsAny(text, "*?"))
}

// valuePattern reads a pattern about another attribute: a glob only if it contains
// *, because ? is common in values.
func valuePattern(text string) pattern {
	return newPattern(text, strings.Contains(text, "*"))
}

func newPattern(text string, glob bool) pattern {
	if !glob {
		return pattern{text: text, prefix: text}
	}
	return pattern{text: text, glob: true, prefix: text[:strings.IndexAny(text, "*?")]}
}

// anyKey tells whether the pattern matches every text, or every one from some length
// on, such as ?*: for a list of API keys that is all of them.
func (p pattern) anyKey() bool {
	return strings.Contains(p.text, "*") && strings.Trim(p.text, "*?") == ""
}

func (p pattern) match(s string) bool {
	if !p.glob {
		return p.text == s
	}
	return strings.HasPrefix(s, p.prefix) && globMatch(p.text[len(p.prefix):], s[len(p.prefix):])
}

// globMatch matches greedily: a later * makes all earlier choices irrelevant, so it
// is enough to go back to the last one. At most len(glob)*len(s) steps.
func globMatch(glob, s string) bool {
	g, i := 0, 0
	star, resume := -1, 0 // place after the last *, and where its run ends so far
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
