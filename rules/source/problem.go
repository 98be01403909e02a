package source

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// MaxProblems is how many problems, and how many warnings, of one file are reported: enough to
// correct a file in one go, and few enough to read.
const MaxProblems = 20

// MaxCollected caps the problems that are kept while reading, so that a file full of mistakes costs
// no more than a correct one. It is above MaxProblems because several passes find problems, which
// are shown in the order of the file.
const MaxCollected = 1000

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

// Position is a place in the file, counted from 1. The zero value is unknown.
type Position struct {
	Line, column int
}

// After reports whether p is behind other.
func (p Position) After(other Position) bool {
	return p.Line > other.Line || p.Line == other.Line && p.column > other.column
}

// Problems collects the problems of one file.
type Problems struct {
	file     string
	Found    []Problem
	warnings []Warning
	dropped  int
}

// Add notes a problem. Beyond MaxCollected problems it is only counted.
func (p *Problems) Add(at Position, format string, args ...any) {
	if p.full() {
		p.dropped++
		return
	}
	p.Found = append(p.Found, p.problem(at, format, args...))
}

// full reports whether further problems are only counted.
func (p *Problems) full() bool { return len(p.Found) >= MaxCollected }

// Warn notes a warning. Beyond MaxCollected warnings it is dropped.
func (p *Problems) Warn(at Position, format string, args ...any) {
	if len(p.warnings) < MaxCollected {
		p.warnings = append(p.warnings, p.problem(at, format, args...))
	}
}

func (p *Problems) problem(at Position, format string, args ...any) Problem {
	return Problem{
		File:    p.file,
		Line:    max(at.Line, 1),
		Column:  max(at.column, 1),
		Message: fmt.Sprintf(format, args...),
	}
}

// Count returns how many problems were found so far. A caller compares two counts to learn whether
// the part between them has a problem.
func (p *Problems) Count() int { return len(p.Found) + p.dropped }

// Err returns the problems as an *Error, or nil if there are none.
func (p *Problems) Err() error {
	if len(p.Found) == 0 {
		return nil
	}
	shown := firstOf(p.Found)
	return &Error{Problems: shown, Omitted: p.Count() - len(shown)}
}

// FirstWarnings returns the first MaxProblems warnings, in the order of the file.
func (p *Problems) FirstWarnings() []Warning { return firstOf(p.warnings) }

// firstOf sorts by position and keeps the first MaxProblems.
func firstOf(list []Problem) []Problem {
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return list[:min(len(list), MaxProblems)]
}
