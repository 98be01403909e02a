package pattern

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

const (
	// MaxChars caps a regex or glob. The longest useful ones are paths.
	MaxChars = 512
	// maxRegexSize caps one compiled regex, in instructions. The time of a match is at most their
	// number times the length of the value.
	maxRegexSize = 5000
	// maxRegexTotal caps all regexes of a file, to some 40 MB of memory.
	maxRegexTotal = 1_000_000
)

// Regexes compiles each distinct pattern of a file once. The zero value is ready. It is not safe for
// concurrent use.
type Regexes struct {
	known map[string]Matcher
	total int // instructions so far, also of refused patterns, which took as long to compile
}

// Compile returns the matcher of a regex, or the reason why the regex is refused.
func (r *Regexes) Compile(text string) (m Matcher, why string) {
	if m, ok := r.known[text]; ok {
		return m, ""
	}
	if r.total > maxRegexTotal {
		return m, oneTooMany()
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return m, "is not a regular expression (RE2 syntax): " + err.Error()
	}
	if tree.Simplify().Op == syntax.OpNoMatch {
		return m, "can never match; change or remove it"
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return m, "is not a regular expression (RE2 syntax): " + err.Error()
	}
	r.total += len(program.Inst)
	if len(program.Inst) > maxRegexSize {
		return m, "compiles to too large a program; use smaller repeat counts"
	}
	if r.total > maxRegexTotal {
		return m, oneTooMany()
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return m, "is not a regular expression (RE2 syntax): " + err.Error()
	}
	m = Matcher{Regex: compiled, Pattern: Pattern{Prefix: anchoredPrefix(tree)}}
	if r.known == nil {
		r.known = make(map[string]Matcher)
	}
	r.known[text] = m
	return m, ""
}

func oneTooMany() string {
	return fmt.Sprintf("is one too many: all patterns of a file compile to at most %d instructions; use fewer or simpler ones", maxRegexTotal)
}

// anchoredPrefix returns the literal after a leading ^, or "" if there is none.
func anchoredPrefix(tree *syntax.Regexp) string {
	if tree.Op != syntax.OpConcat || len(tree.Sub) < 2 || tree.Sub[0].Op != syntax.OpBeginText {
		return ""
	}
	literal := tree.Sub[1]
	if literal.Op != syntax.OpLiteral || literal.Flags&syntax.FoldCase != 0 {
		return ""
	}
	return string(literal.Rune)
}
