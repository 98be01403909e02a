package rules

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

// errNotInPlace means that a part of a file is written in a way that cannot be changed
// without writing it anew.
var errNotInPlace = errors.New("this file is written in a way that cannot be changed in place; change it by hand and apply it")

// sheet is the text of a valid rules file while it is edited: the values in it, where
// they stand, and what is to be changed. Changes are made to the values at once and to
// the text by write, which reads the new text again and compares.
type sheet struct {
	raw    []byte
	lines  []int // where each line begins in raw
	tokens token.Tokens
	starts []int            // where each token begins in raw
	index  map[position]int // of tokens, by place
	root   *node

	containers map[*node]*container
	changed    []*container // the same, in the order of the changes
	splices    []splice
}

// splice puts text in the place of raw[from:to].
type splice struct {
	from, to int
	text     string
}

// openSheet reads a file, which has to be valid. One without any text is taken for
// one without rules.
func openSheet(yaml []byte) (*sheet, error) {
	d := &decoder{problems: &problems{file: "rules"}, regexes: &regexes{known: make(map[string]matcher)}}
	if len(bytes.TrimSpace(yaml)) == 0 {
		yaml = []byte("rules: []\n")
	}
	s := &sheet{raw: yaml, containers: make(map[*node]*container)}
	if !s.read(d.problems) {
		return nil, d.err()
	}
	d.compile(d.document(s.root))
	if err := d.err(); err != nil {
		return nil, err
	}
	s.lines = lineStarts(yaml)
	s.index = make(map[position]int, len(s.tokens))
	s.starts = make([]int, len(s.tokens))
	var c cursor
	for i, t := range s.tokens {
		s.starts[i] = c.moveTo(s, place(t))
		s.index[place(t)] = i
	}
	return s, nil
}

// read splits the text and reads its values.
func (s *sheet) read(p *problems) bool {
	text, ok := cleanText(p, s.raw)
	if !ok {
		return false
	}
	if s.tokens, ok = tokenize(p, text); !ok {
		return false
	}
	s.root = parseTree(p, s.tokens)
	return s.root != nil
}

// lineStarts are the offsets of lines, which end with LF, CR or both. A byte order
// mark belongs to none.
func lineStarts(raw []byte) []int {
	starts := []int{0}
	if bytes.HasPrefix(raw, []byte(byteOrderMark)) {
		starts[0] = len(byteOrderMark)
	}
	for i, c := range raw {
		if c == '\n' || c == '\r' && (i+1 == len(raw) || raw[i+1] != '\n') {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// cursor finds the offsets of places, quickly if they come in order: one line may be
// the whole file.
type cursor struct {
	at     position
	offset int
}

// moveTo is where a place is in raw; a column is a character.
func (c *cursor) moveTo(s *sheet, to position) int {
	if to.line < 1 || to.line > len(s.lines) {
		return len(s.raw)
	}
	if c.at.line != to.line || c.at.column > to.column {
		*c = cursor{position{to.line, 1}, s.lines[to.line-1]}
	}
	for c.at.column < to.column && c.offset < len(s.raw) {
		_, width := utf8.DecodeRune(s.raw[c.offset:])
		c.offset += width
		c.at.column++
	}
	return c.offset
}

// offset is where a value or a key begins in raw.
func (s *sheet) offset(at position) int { return s.starts[s.index[at]] }

// lineAt is the line that an offset is in, counted from 0.
func (s *sheet) lineAt(offset int) int {
	i, found := slices.BinarySearch(s.lines, offset)
	if found {
		return i
	}
	return max(i-1, 0)
}

// afterLine is where the line after that of an offset begins.
func (s *sheet) afterLine(offset int) int {
	if next := s.lineAt(offset) + 1; next < len(s.lines) {
		return s.lines[next]
	}
	return len(s.raw)
}

// newline is what ends the file's lines.
func (s *sheet) newline() string {
	switch at := bytes.IndexAny(s.raw, "\r\n"); {
	case at >= 0 && bytes.HasPrefix(s.raw[at:], []byte("\r\n")):
		return "\r\n"
	case at >= 0 && s.raw[at] == '\r':
		return "\r"
	}
	return "\n"
}

// isFlow tells whether a mapping or list stands in brackets.
func (s *sheet) isFlow(n *node) bool {
	t := s.tokens[s.index[n.at]].Type
	return t == token.MappingStartType || t == token.SequenceStartType
}

// end is the offset behind a value.
func (s *sheet) end(n *node) int {
	switch {
	case (n.kind == kindMapping || n.kind == kindSequence) && s.isFlow(n):
		return s.closing(n)
	case s.containers[n] != nil:
		was := s.containers[n].was // n may have changed since
		if len(was) == 0 {
			break
		}
		return was[len(was)-1].to
	case n.kind == kindMapping && len(n.fields) > 0:
		return s.end(n.fields[len(n.fields)-1].value)
	case n.kind == kindSequence && len(n.items) > 0:
		return s.end(n.items[len(n.items)-1])
	}
	return s.endOfToken(s.lastToken(n))
}

// lastToken is the token that a scalar ends with: of a block scalar (| or >) the text
// after its sign, whose place says nothing.
func (s *sheet) lastToken(n *node) int {
	i := s.index[n.at]
	if t := s.tokens[i].Type; t == token.LiteralType || t == token.FoldedType {
		for i+1 < len(s.tokens) && s.tokens[i].Type != token.StringType {
			i++
		}
	}
	return i
}

// endOfToken is the offset behind a token: where the next one begins, less the space
// between.
func (s *sheet) endOfToken(i int) int {
	next := len(s.raw)
	if i+1 < len(s.tokens) {
		next = s.starts[i+1]
	}
	return len(bytes.TrimRight(s.raw[:next], " \t\r\n"))
}

// closing is the offset behind the bracket that closes a value.
func (s *sheet) closing(n *node) int {
	depth := 0
	for i := s.index[n.at]; i < len(s.tokens); i++ {
		switch s.tokens[i].Type {
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			if depth--; depth == 0 {
				return s.starts[i] + 1
			}
		}
	}
	return len(s.raw)
}

// replace puts another value in the place of a scalar.
func (s *sheet) replace(f *field, by *node) {
	s.splices = append(s.splices, splice{s.offset(f.value.at), s.end(f.value), by.inline()})
	f.value = by
}

// write makes the changes in the text, and checks that the text says what they were
// to say.
func (s *sheet) write() ([]byte, error) {
	for _, c := range s.changed {
		if err := s.layOut(c); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(s.splices, func(a, b splice) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	var out []byte
	at := 0
	for _, p := range s.splices {
		if p.from < at {
			return nil, errNotInPlace
		}
		out = append(append(out, s.raw[at:p.from]...), p.text...)
		at = p.to
	}
	out = append(out, s.raw[at:]...)
	changed := &sheet{raw: out}
	found := &problems{file: "rules"}
	if len(out) > MaxFileBytes {
		cleanText(found, out)
		return nil, found.err()
	}
	if !changed.read(found) {
		return nil, fmt.Errorf("%w (%w)", errNotInPlace, found.err())
	}
	if !changed.root.equal(s.root) {
		return nil, errNotInPlace
	}
	return out, nil
}

// blankBefore tells whether nothing stands before an offset on its line.
func (s *sheet) blankBefore(offset int) bool {
	from := s.lines[s.lineAt(offset)]
	return strings.Trim(string(s.raw[from:offset]), " ") == ""
}
