package source

import (
	"encoding/json"
	"strings"
)

// Value is one value of a YAML file with its place. It is for other files that are read as
// carefully as rules files: within bounds, and without losing anything. Line and Column count from
// 1. The zero value is an empty value.
type Value struct {
	Line, Column int
	// Text is a scalar as written, without quotes; "" for an empty value.
	Text   string
	Fields []ValueField // of a mapping, in the order of the file
	Items  []*Value     // of a list
	kind   Kind
}

// ValueField is one entry of a mapping. Line and Column are those of its name. A name may occur
// twice.
type ValueField struct {
	Line, Column int
	Name         string
	Value        *Value
}

// Kind returns the kind of the value for a sentence: "a text", "a number", "true or false", "a
// mapping", "a list" or "nothing".
func (v *Value) Kind() string { return v.kind.String() }

// Read reads a YAML file within the bounds of a rules file. The error is an *Error that says
// what is wrong and where.
func Read(file string, data []byte) (*Value, error) {
	p := &Problems{file: file}
	root := p.Read(data)
	if err := p.Err(); err != nil {
		return nil, err
	}
	return valueOfNode(root), nil
}

func valueOfNode(n *Node) *Value {
	v := &Value{Line: n.At.Line, Column: n.At.column, Text: n.Text, kind: n.Kind}
	for _, f := range n.Fields {
		v.Fields = append(v.Fields, ValueField{f.At.Line, f.At.column, f.Name, valueOfNode(f.Value)})
	}
	for _, item := range n.Items {
		v.Items = append(v.Items, valueOfNode(item))
	}
	return v
}

// Quote returns a text in double quotes, in a form that a rules file accepts for any text.
func Quote(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a text can always be encoded
	quoted := strings.TrimSuffix(b.String(), "\n")
	return strings.NewReplacer("\x7f", `\u007f`, "\u0085", `\u0085`, byteOrderMark, `\ufeff`).Replace(quoted)
}
