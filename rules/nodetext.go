package rules

import (
	"encoding/json"
	"strings"
)

func textNode(text string) *node { return &node{kind: kindString, text: text} }

func mappingNode(fields ...field) *node { return &node{kind: kindMapping, fields: fields} }

// entry finds a field of a mapping, nil if there is none.
func (n *node) entry(name string) *field {
	for i := range n.fields {
		if n.fields[i].name == name {
			return &n.fields[i]
		}
	}
	return nil
}

// field is the value of a field of a mapping, nil if there is none.
func (n *node) field(name string) *node {
	if f := n.entry(name); f != nil {
		return f.value
	}
	return nil
}

// equal tells whether two trees say the same, wherever they say it.
func (n *node) equal(other *node) bool {
	if n.kind != other.kind || n.text != other.text || len(n.fields) != len(other.fields) || len(n.items) != len(other.items) {
		return false
	}
	for i := range n.fields {
		if n.fields[i].name != other.fields[i].name || !n.fields[i].value.equal(other.fields[i].value) {
			return false
		}
	}
	for i := range n.items {
		if !n.items[i].equal(other.items[i]) {
			return false
		}
	}
	return true
}

// inline writes a value on one line.
func (n *node) inline() string {
	switch n.kind {
	case kindString:
		return quoteText(n.text)
	case kindMapping:
		parts := make([]string, 0, len(n.fields))
		for i := range n.fields {
			parts = append(parts, n.fields[i].inline())
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case kindSequence:
		parts := make([]string, 0, len(n.items))
		for _, item := range n.items {
			parts = append(parts, item.inline())
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return n.text
}

func (f *field) inline() string {
	name := f.name
	if !isPlainWord(name) {
		name = quoteText(name)
	}
	return name + ": " + f.value.inline()
}

// isPlainWord tells words that are texts without quotes for every YAML reader: the
// names of fields, of which none is true, no, null or the like.
func isPlainWord(s string) bool { return placeOf(s) != "" || s == "pattern" }

// quoteText writes a text in double quotes, as JSON does; what a rules file accepts
// in no other form is escaped.
func quoteText(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a text can always be written
	quoted := strings.TrimSuffix(b.String(), "\n")
	return strings.NewReplacer("\x7f", `\u007f`, "\u0085", `\u0085`, byteOrderMark, `\ufeff`).Replace(quoted)
}
