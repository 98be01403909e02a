// Package source reads a YAML file with the place of every value, and collects what is wrong with it: each
// problem with its line and column, and with the name that was probably meant. It knows no rules; the
// schema that a caller gives says which fields there are. It is pure.
package source

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxNameChars caps ids, attribute names and tier names.
const MaxNameChars = 64

// Schema has a reader for each field that a mapping may have.
type Schema map[string]func(f *Field)

// Reader reads nodes by the schema. Every method reports problems and goes on, so that one pass finds
// all of them.
type Reader struct {
	*Problems
	// placeOf returns where in the file a field belongs, or "" if the schema does not have it.
	placeOf func(field string) string
}

// NewReader returns a reader of the file, without problems so far.
func NewReader(file string, placeOf func(field string) string) *Reader {
	return &Reader{Problems: &Problems{file: file}, placeOf: placeOf}
}

// Mapping reads the fields of n in the order of the file. what names the mapping in messages: "a
// rule". It returns true if n is a mapping of known fields, each once. Otherwise a field that seems
// to be missing may be there under a wrong name.
func (d *Reader) Mapping(n *Node, what string, known Schema) (sound bool) {
	if !d.Is(n, KindMapping, what) {
		return false
	}
	unknown := false
	once := d.EachField(n, func(f *Field) {
		read, ok := known[f.Name]
		if !ok {
			unknown = true
			if d.full() {
				d.dropped++ // a search for a similar name takes longer than to read on
				return
			}
			names := slices.Sorted(maps.Keys(known))
			d.Add(f.At, "unknown field %q in %s; %s", Shorten(f.Name), what, d.insteadOf(f.Name, names))
			return
		}
		read(f)
	})
	return once && !unknown
}

// EachField calls read for each field of a mapping and reports repeated fields. It returns true if
// there were none.
func (d *Reader) EachField(n *Node, read func(f *Field)) (once bool) {
	once = true
	seen := make(map[string]Position, len(n.Fields))
	for i := range n.Fields {
		f := &n.Fields[i]
		if first, twice := seen[f.Name]; twice {
			d.Add(f.At, "%q is written twice here, first on line %d; remove one", Shorten(f.Name), first.Line)
			once = false
			continue
		}
		seen[f.Name] = f.At
		read(f)
	}
	return once
}

// Is checks the kind of a value.
func (d *Reader) Is(n *Node, want Kind, what string) bool {
	if n.Kind == want {
		return true
	}
	hint := ""
	switch {
	case n.Kind == KindNull:
		hint = "; write the value or remove the field"
	case want == KindString && (n.Kind == KindNumber || n.Kind == KindBool):
		hint = "; put it in quotes: \"" + Shorten(n.Text) + "\""
	case want == KindNumber && n.Kind == KindString:
		hint = "; write it without quotes or units, like 100"
	case want == KindBool && n.Kind == KindString:
		hint = "; write true or false without quotes"
	case want == KindSequence:
		hint = "; write it in brackets, like [a, b]"
	case want == KindMapping:
		hint = "; write it in braces, like {name: value}, or indented below"
	}
	d.Add(n.At, "%s must be %s, found %s%s", what, want, n.Kind, hint)
	return false
}

// Bool reads true or false; nil if the value is neither.
func (d *Reader) Bool(f *Field) *bool {
	if !d.Is(f.Value, KindBool, f.Name) {
		return nil
	}
	v := strings.EqualFold(f.Value.Text, "true")
	return &v
}

// Text reads a text of 1 to most characters.
func (d *Reader) Text(n *Node, what string, most int) (string, bool) {
	if !d.Is(n, KindString, what) {
		return "", false
	}
	return n.Text, d.Named(n.At, n.Text, what, most)
}

// Named checks a text that names something: it must not be empty, too long, or have invisible
// characters.
func (d *Reader) Named(at Position, text, what string, most int) bool {
	switch {
	case text == "":
		d.Add(at, "%s is empty; write a value", what)
	case utf8.RuneCountInString(text) > most:
		d.Add(at, "%s is longer than %d characters; shorten it", what, most)
	case strings.ContainsFunc(text, unicode.IsControl):
		d.Add(at, "%s contains a control character; remove it", what)
	default:
		return true
	}
	return false
}

// List reads a sequence of at most most items.
func (d *Reader) List(n *Node, what string, most int, read func(item *Node)) {
	if !d.Is(n, KindSequence, what) {
		return
	}
	if len(n.Items) > most {
		d.Add(n.At, "%s has %d entries; at most %d are accepted", what, len(n.Items), most)
		return
	}
	for _, item := range n.Items {
		read(item)
	}
}

// Reference is the name of a rule or an attribute as written in the file.
type Reference struct {
	At   Position
	Name string
}

// Names reads a list of at most most different names.
func (d *Reader) Names(f *Field, what string, most int) []Reference {
	var out []Reference
	seen := make(map[string]bool)
	d.List(f.Value, f.Name, most, func(item *Node) {
		name, ok := d.Text(item, what, MaxNameChars)
		switch {
		case !ok:
		case seen[name]:
			d.Add(item.At, "%s names %q twice; remove one", f.Name, name)
		default:
			seen[name] = true
			out = append(out, Reference{At: item.At, Name: name})
		}
	})
	return out
}

// Choose reads one of a fixed set of words, and returns "" for any other.
func (d *Reader) Choose(f *Field, words []string) string {
	switch {
	case f.Value.Kind == KindBool || f.Value.Kind == KindNumber:
	case !d.Is(f.Value, KindString, f.Name):
		return ""
	case slices.Contains(words, f.Value.Text):
		return f.Value.Text
	}
	d.Add(f.Value.At, "unknown %s %q; %s", f.Name, Shorten(f.Value.Text), DidYouMean(f.Value.Text, words))
	return ""
}

// Shorten cuts a text of the file so that a message with it stays readable.
func Shorten(text string) string {
	const most = 40
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most]) + "..."
}
