// Package form recognises states of a search: it numbers the counters of a state from the smallest on,
// hashes the result, and remembers the hashes that were reached.
package form

import (
	"math/bits"
	"slices"

	"aliquot/budget"
)

// Form is the canonical form of one part of a world: a hash of its facts, and its counters, which
// are ranked together with those of the other parts.
type Form struct {
	facts uint64
	names []budget.Name
}

// Writer writes forms. The zero value is ready. Each goroutine has its own.
type Writer struct {
	// Canon is what was written of the present part. Its Longest bounds ages.
	Canon budget.Canon
	ranks ranker
}

// mix adds a word to a hash, by the multiplication of wyhash.
func mix(h, word uint64) uint64 {
	const k0, k1 = 0xa0761d6478bd642f, 0xe7037ed1a0b428db
	hi, lo := bits.Mul64(h^k0, word^k1)
	return hi ^ lo
}

// Take returns the form of what was written, and makes the Writer ready for the next part.
func (x *Writer) Take() *Form {
	h := uint64(len(x.Canon.Words))
	for _, word := range x.Canon.Words {
		h = mix(h, word)
	}
	f := &Form{facts: h, names: slices.Clone(x.Canon.Names)}
	x.Canon.Reset()
	return f
}

// Hash returns the hash of a state by the forms of its parts.
func (x *Writer) Hash(parts []*Form) uint64 { return x.ranks.hash(parts) }

// Age writes an age in microseconds of a store's clock, up to Canon.Longest, beyond which it makes no
// difference.
func (x *Writer) Age(us int64) { x.Canon.Int(min(us, x.Canon.Longest.Microseconds())) }
