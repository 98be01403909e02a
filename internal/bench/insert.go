package bench

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// errNoPlace means that a rules file has no list of rules as this program knows it.
var errNoPlace = errors.New("the rules in force have no list of rules that one could be added to")

// insertRules puts rules, each a YAML mapping on one line, before the first rule of
// a rules file. It returns the new file and what was put in: taking that text out
// again, see withoutInserted, gives the old file back to the byte.
func insertRules(file string, items []string) (text, inserted string, err error) {
	if strings.TrimSpace(file) == "" {
		text = "rules:\n" + blockItems("  ", items)
		return text, text, nil
	}
	list, err := ruleList(file)
	if err != nil {
		return "", "", err
	}
	if list.Start == nil || list.Start.Position == nil {
		return "", "", errNoPlace
	}
	at, ok := offsetOf(file, list.Start.Position.Line, list.Start.Position.Column)
	if !ok {
		return "", "", errNoPlace
	}
	if file[at] == '[' {
		at++
		inserted = strings.Join(items, ", ")
		if len(list.Values) > 0 {
			inserted += ", "
		}
		return file[:at] + inserted + file[at:], inserted, nil
	}
	line := strings.LastIndexByte(file[:at], '\n') + 1
	indent := file[line:at]
	if file[at] != '-' || strings.Trim(indent, " ") != "" {
		return "", "", errNoPlace
	}
	inserted = blockItems(indent, items)
	return file[:line] + inserted + file[line:], inserted, nil
}

// withoutInserted takes out what insertRules put in, from that file or from one
// that was changed elsewhere since.
func withoutInserted(file, inserted string) (text string, found bool) {
	before, after, found := strings.Cut(file, inserted)
	return before + after, found
}

func blockItems(indent string, items []string) string {
	var b strings.Builder
	for _, item := range items {
		b.WriteString(indent + "- " + item + "\n")
	}
	return b.String()
}

// ruleList finds the list under the key rules.
func ruleList(file string) (*ast.SequenceNode, error) {
	parsed, err := parser.ParseBytes([]byte(file), 0)
	if err != nil {
		return nil, fmt.Errorf("the rules in force cannot be read: %w", err)
	}
	if len(parsed.Docs) == 0 {
		return nil, errNoPlace
	}
	root, ok := parsed.Docs[0].Body.(*ast.MappingNode)
	if !ok {
		return nil, errNoPlace
	}
	for _, field := range root.Values {
		if list, ok := field.Value.(*ast.SequenceNode); ok && field.Key.String() == "rules" {
			return list, nil
		}
	}
	return nil, errNoPlace
}

// offsetOf is where a line's column, both from 1 and in runes, begins in a text.
func offsetOf(text string, line, column int) (int, bool) {
	at := 0
	for range line - 1 {
		next := strings.IndexByte(text[at:], '\n')
		if next < 0 {
			return 0, false
		}
		at += next + 1
	}
	n := 0
	for i := range text[at:] {
		if n++; n == column {
			return at + i, true
		}
	}
	return 0, false
}
