package rules

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxNameChars caps ids, attribute names and tier names.
const MaxNameChars = 64

// schema has a reader for each field that a mapping may have.
type schema map[string]func(f *field)

// decoder reads nodes by the schema. Every reader reports problems and goes on, so that one pass
// finds all of them.
type decoder struct {
	*problems
	regexes *regexes
}

// mapping reads the fields of n in the order of the file. what names the mapping in messages: "a
// rule". It returns true if n is a mapping of known fields, each once. Otherwise a field that seems
// to be missing may be there under a wrong name.
func (d *decoder) mapping(n *node, what string, known schema) (sound bool) {
	if !d.is(n, kindMapping, what) {
		return false
	}
	unknown := false
	once := d.eachField(n, func(f *field) {
		read, ok := known[f.name]
		if !ok {
			unknown = true
			if d.full() {
				d.dropped++ // a search for a similar name takes longer than to read on
				return
			}
			names := slices.Sorted(maps.Keys(known))
			d.add(f.at, "unknown field %q in %s; %s", shorten(f.name), what, insteadOf(f.name, names))
			return
		}
		read(f)
	})
	return once && !unknown
}

// eachField calls read for each field of a mapping and reports repeated fields. It returns true if
// there were none.
func (d *decoder) eachField(n *node, read func(f *field)) (once bool) {
	once = true
	seen := make(map[string]position, len(n.fields))
	for i := range n.fields {
		f := &n.fields[i]
		if first, twice := seen[f.name]; twice {
			d.add(f.at, "%q is written twice here, first on line %d; remove one", shorten(f.name), first.line)
			once = false
			continue
		}
		seen[f.name] = f.at
		read(f)
	}
	return once
}

// is checks the kind of a value.
func (d *decoder) is(n *node, want kind, what string) bool {
	if n.kind == want {
		return true
	}
	hint := ""
	switch {
	case n.kind == kindNull:
		hint = "; write the value or remove the field"
	case want == kindString && (n.kind == kindNumber || n.kind == kindBool):
		hint = "; put it in quotes: \"" + shorten(n.text) + "\""
	case want == kindNumber && n.kind == kindString:
		hint = "; write it without quotes or units, like 100"
	case want == kindBool && n.kind == kindString:
		hint = "; write true or false without quotes"
	case want == kindSequence:
		hint = "; write it in brackets, like [a, b]"
	case want == kindMapping:
		hint = "; write it in braces, like {name: value}, or indented below"
	}
	d.add(n.at, "%s must be %s, found %s%s", what, want, n.kind, hint)
	return false
}

func (d *decoder) bool(f *field) *bool {
	if !d.is(f.value, kindBool, f.name) {
		return nil
	}
	v := strings.EqualFold(f.value.text, "true")
	return &v
}

// text reads a text of 1 to most characters.
func (d *decoder) text(n *node, what string, most int) (string, bool) {
	if !d.is(n, kindString, what) {
		return "", false
	}
	return n.text, d.named(n.at, n.text, what, most)
}

// named checks a text that names something: it must not be empty, too long, or have invisible
// characters.
func (d *decoder) named(at position, text, what string, most int) bool {
	switch {
	case text == "":
		d.add(at, "%s is empty; write a value", what)
	case utf8.RuneCountInString(text) > most:
		d.add(at, "%s is longer than %d characters; shorten it", what, most)
	case strings.ContainsFunc(text, unicode.IsControl):
		d.add(at, "%s contains a control character; remove it", what)
	default:
		return true
	}
	return false
}

// list reads a sequence of at most most items.
func (d *decoder) list(n *node, what string, most int, read func(item *node)) {
	if !d.is(n, kindSequence, what) {
		return
	}
	if len(n.items) > most {
		d.add(n.at, "%s has %d entries; at most %d are accepted", what, len(n.items), most)
		return
	}
	for _, item := range n.items {
		read(item)
	}
}

// reference is the name of a rule or an attribute as written in the file.
type reference struct {
	at   position
	name string
}

// names reads a list of at most most different names.
func (d *decoder) names(f *field, what string, most int) []reference {
	var out []reference
	seen := make(map[string]bool)
	d.list(f.value, f.name, most, func(item *node) {
		name, ok := d.text(item, what, MaxNameChars)
		switch {
		case !ok:
		case seen[name]:
			d.add(item.at, "%s names %q twice; remove one", f.name, name)
		default:
			seen[name] = true
			out = append(out, reference{at: item.at, name: name})
		}
	})
	return out
}

// choose reads one of a fixed set of words, and returns "" for any other.
func (d *decoder) choose(f *field, words []string) string {
	if !d.is(f.value, kindString, f.name) {
		return ""
	}
	if slices.Contains(words, f.value.text) {
		return f.value.text
	}
	d.add(f.value.at, "unknown %s %q; %s", f.name, shorten(f.value.text), didYouMean(f.value.text, words))
	return ""
}

// shorten cuts a text of the file so that a message with it stays readable.
func shorten(text string) string {
	const most = 40
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most]) + "..."
}
