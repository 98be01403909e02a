package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// MaxProblems is how many problems, and how many warnings, of one file are reported: enough to
// correct a file in one go, and few enough to read.
const MaxProblems = 20

// maxCollected caps the problems that are kept while reading, so that a file full of mistakes costs
// no more than a correct one. It is above MaxProblems because several passes find problems, which
// are shown in the order of the file.
const maxCollected = 1000

// Problem is one mistake in a file. Line and Column count from 1. A column is a character, not a
// byte.
type Problem struct {
	File    string
	Line    int
	Column  int
	Message string
}

// Warning is a remark about a file that is accepted.
type Warning = Problem

// String returns the form that compilers use: "rules.yaml:3:5: message".
func (p Problem) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
}

// Error is the problems of one file, in the order of the file, at most MaxProblems of them.
type Error struct {
	Problems []Problem
	// Omitted is how many further problems were found. A count above a thousand is not exact,
	// because reading ends then.
	Omitted int
}

// Error lists the problems, one a line.
func (e *Error) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.String())
	}
	if e.Omitted > 0 {
		fmt.Fprintf(&b, "\nand %d more", e.Omitted)
	}
	return b.String()
}

// position is a place in the file, counted from 1. The zero value is unknown.
type position struct {
	line, column int
}

// after reports whether p is behind other.
func (p position) after(other position) bool {
	return p.line > other.line || p.line == other.line && p.column > other.column
}

// problems collects the problems of one file.
type problems struct {
	file     string
	found    []Problem
	warnings []Warning
	dropped  int
}

func (p *problems) add(at position, format string, args ...any) {
	if p.full() {
		p.dropped++
		return
	}
	p.found = append(p.found, p.problem(at, format, args...))
}

// full reports whether further problems are only counted.
func (p *problems) full() bool { return len(p.found) >= maxCollected }

func (p *problems) warn(at position, format string, args ...any) {
	if len(p.warnings) < maxCollected {
		p.warnings = append(p.warnings, p.problem(at, format, args...))
	}
}

func (p *problems) problem(at position, format string, args ...any) Problem {
	return Problem{
		File:    p.file,
		Line:    max(at.line, 1),
		Column:  max(at.column, 1),
		Message: fmt.Sprintf(format, args...),
	}
}

// count returns how many problems were found so far. A caller compares two counts to learn whether
// the part between them has a problem.
func (p *problems) count() int { return len(p.found) + p.dropped }

// err returns the problems as an *Error, or nil if there are none.
func (p *problems) err() error {
	if len(p.found) == 0 {
		return nil
	}
	shown := firstOf(p.found)
	return &Error{Problems: shown, Omitted: p.count() - len(shown)}
}

// firstOf sorts by position and keeps the first MaxProblems.
func firstOf(list []Problem) []Problem {
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return list[:min(len(list), MaxProblems)]
}
