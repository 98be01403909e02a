package rules

import (
	"encoding/json"
	"strings"
)

// Value is one value of a YAML file with its place, for files beside rules files that
// are read with the same care: bounded, and nothing in them lost. Line and Column count
// from 1. The zero value is an empty one.
type Value struct {
	Line, Column int
	// Text is a scalar as it is written, without quotes; "" for an empty value.
	Text   string
	Fields []ValueField // of a mapping, in the order of the file
	Items  []*Value     // of a list
	kind   kind
}

// ValueField is one entry of a mapping; Line and Column are those of its name. A name
// may come twice.
type ValueField struct {
	Line, Column int
	Name         string
	Value        *Value
}

// Kind says what the value is, for a sentence: "a text", "a number", "true or false",
// "a mapping", "a list" or "nothing".
func (v *Value) Kind() string { return v.kind.String() }

// ReadYAML reads a YAML file within the bounds of a rules file. The error is an *Error
// that says what is wrong where.
func ReadYAML(file string, data []byte) (*Value, error) {
	p := &problems{file: file}
	text, ok := cleanText(p, data)
	if !ok {
		return nil, p.err()
	}
	root := parseYAML(p, text)
	if err := p.err(); err != nil {
		return nil, err
	}
	return valueOfNode(root), nil
}

func valueOfNode(n *node) *Value {
	v := &Value{Line: n.at.line, Column: n.at.column, Text: n.text, kind: n.kind}
	for _, f := range n.fields {
		v.Fields = append(v.Fields, ValueField{f.at.line, f.at.column, f.name, valueOfNode(f.value)})
	}
	for _, item := range n.items {
		v.Items = append(v.Items, valueOfNode(item))
	}
	return v
}

// Quote writes a text in double quotes, as a rules file accepts any text.
func Quote(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a text can always be written
	quoted := strings.TrimSuffix(b.String(), "\n")
	return strings.NewReplacer("\x7f", `\u007f`, "\u0085", `\u0085`, byteOrderMark, `\ufeff`).Replace(quoted)
}
