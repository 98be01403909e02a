package main

import (
	"fmt"
	"go/parser"
	"go/scanner"
	"go/token"
	"regexp"
	"strings"
)

// directive matches the comments that are more than text: the toolchain or `go test` acts on them.
var directive = regexp.MustCompile(`^//([a-z0-9]+:[a-z0-9]|line |extern |export )|^// (Unordered output|Output):`)

// word is one token of a source file.
type word struct {
	token token.Token
	text  string
	line  int
}

// difference says where the syntax trees of two versions of a file first differ, or returns "" if
// they are the same. It returns an error if a version cannot be parsed.
//
// It compares the sequences of tokens: the sequence decides the tree, so equal sequences are equal
// trees. The comparison is stricter than one of trees. A list that is broken over lines in another
// way counts as different, because of its last comma.
func difference(name string, before, after []byte) (string, error) {
	old, err := words(name, before)
	if err != nil {
		return "", err
	}
	changed, err := words(name, after)
	if err != nil {
		return "", err
	}
	for i := range max(len(old), len(changed)) {
		switch {
		case i >= len(old):
			return fmt.Sprintf("line %d has %q, which is new", changed[i].line, changed[i].text), nil
		case i >= len(changed):
			return fmt.Sprintf("line %d of the base has %q, which is gone", old[i].line, old[i].text), nil
		case old[i].token != changed[i].token || old[i].text != changed[i].text:
			return fmt.Sprintf("line %d has %q, and line %d of the base %q", changed[i].line, changed[i].text, old[i].line, old[i].text), nil
		}
	}
	return "", nil
}

// words returns the tokens of a source file without its comments, except for directives.
func words(name string, source []byte) ([]word, error) {
	fset := token.NewFileSet()
	if _, err := parser.ParseFile(fset, name, source, parser.SkipObjectResolution); err != nil {
		return nil, err
	}
	file := fset.AddFile(name, -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	var out []word
	for {
		pos, tok, text := s.Scan()
		switch {
		case tok == token.EOF:
			return out, nil
		case tok == token.COMMENT && !directive.MatchString(text):
			continue
		case tok == token.SEMICOLON:
			text = ";" // the source may leave it out
		case text == "":
			text = tok.String()
		}
		if tok == token.COMMENT {
			text = strings.TrimSpace(text)
		}
		out = append(out, word{token: tok, text: text, line: file.Line(pos)})
	}
}
