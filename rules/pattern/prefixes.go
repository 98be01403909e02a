package pattern

import "slices"

// maxIndexedPrefix caps the prefix under which a pattern is indexed, and so the number of look-ups
// for one value.
const maxIndexedPrefix = 32

// Prefixes finds ordinals by a prefix of a value. The zero value is empty.
type Prefixes struct {
	// Lengths are the distinct lengths of the indexed prefixes, in bytes, ascending.
	Lengths []int
	// Under has the ordinals of each indexed prefix, ascending.
	Under map[string][]int32
}

// IndexedPrefix returns the part of a prefix under which it is indexed.
func IndexedPrefix(s string) string { return s[:min(len(s), maxIndexedPrefix)] }

// Add indexes an ordinal. Ordinals must come in ascending order.
func (p *Prefixes) Add(prefix string, ordinal int32) {
	if p.Under == nil {
		p.Under = make(map[string][]int32)
	}
	prefix = IndexedPrefix(prefix)
	if at, found := slices.BinarySearch(p.Lengths, len(prefix)); !found {
		p.Lengths = slices.Insert(p.Lengths, at, len(prefix))
	}
	p.Under[prefix] = append(p.Under[prefix], ordinal)
}
