package rules

// kind is the kind of a value of the file. A quoted text that looks like a number is a string.
type kind uint8

const (
	kindNull kind = iota
	kindString
	kindNumber
	kindBool
	kindMapping
	kindSequence
)

// String names the kind in a sentence: "expected a list, found ...".
func (k kind) String() string {
	switch k {
	case kindString:
		return "a text"
	case kindNumber:
		return "a number"
	case kindBool:
		return "true or false"
	case kindMapping:
		return "a mapping"
	case kindSequence:
		return "a list"
	}
	return "nothing"
}

// node is one value of the file with its place, from which the schema is read. It makes the rest of
// the package independent of the YAML library.
type node struct {
	at     position
	kind   kind
	text   string // of a scalar: the text as written, without quotes
	fields []field
	items  []*node
}

// eachScalar calls yield with the place of every key and scalar below n.
func (n *node) eachScalar(yield func(at position)) {
	switch n.kind {
	case kindMapping:
		for _, f := range n.fields {
			yield(f.at)
			f.value.eachScalar(yield)
		}
	case kindSequence:
		for _, item := range n.items {
			item.eachScalar(yield)
		}
	default:
		yield(n.at)
	}
}

// field is one entry of a mapping.
type field struct {
	at    position
	name  string
	value *node
}
