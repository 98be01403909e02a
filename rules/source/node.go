package source

// Kind is the kind of a value of the file. A quoted text that looks like a number is a string.
type Kind uint8

const (
	KindNull Kind = iota
	KindString
	KindNumber
	KindBool
	KindMapping
	KindSequence
)

// String names the kind in a sentence: "expected a list, found ...".
func (k Kind) String() string {
	switch k {
	case KindString:
		return "a text"
	case KindNumber:
		return "a number"
	case KindBool:
		return "true or false"
	case KindMapping:
		return "a mapping"
	case KindSequence:
		return "a list"
	}
	return "nothing"
}

// Node is one value of the file with its place, from which the schema is read. It makes the rest of
// the package independent of the YAML library.
type Node struct {
	At     Position
	Kind   Kind
	Text   string // of a scalar: the text as written, without quotes
	Fields []Field
	Items  []*Node
}

// eachScalar calls yield with the place of every key and scalar below n.
func (n *Node) eachScalar(yield func(at Position)) {
	switch n.Kind {
	case KindMapping:
		for _, f := range n.Fields {
			yield(f.At)
			f.Value.eachScalar(yield)
		}
	case KindSequence:
		for _, item := range n.Items {
			item.eachScalar(yield)
		}
	default:
		yield(n.At)
	}
}

// Field is one entry of a mapping.
type Field struct {
	At    Position
	Name  string
	Value *Node
}
