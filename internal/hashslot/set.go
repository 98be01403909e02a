package hashslot

import (
	"encoding/binary"
	"fmt"
)

// Set is a set of slots. The zero value and nil are empty. It is not changed once another package has
// it, and is then safe for concurrent use.
type Set [Count / 64]uint64

// setBytes is the length of a set in bytes.
const setBytes = Count / 8

// Add adds a slot, 0 to Count-1.
func (s *Set) Add(slot int) { s[slot/64] |= 1 << (slot % 64) }

// Has reports whether a slot, 0 to Count-1, is in the set.
func (s *Set) Has(slot int) bool { return s != nil && s[slot/64]&(1<<(slot%64)) != 0 }

// Same reports whether two sets hold the same slots. Either may be nil.
func (s *Set) Same(other *Set) bool { return s == other || s.value() == other.value() }

// value returns the set, empty for nil.
func (s *Set) value() Set {
	if s == nil {
		return Set{}
	}
	return *s
}

// Bytes encodes the set for a message, as one bit for each slot, the lowest bit of a byte first. It
// returns nil for an empty set.
func (s *Set) Bytes() []byte {
	if s.Same(nil) {
		return nil
	}
	out := make([]byte, 0, setBytes)
	for _, word := range s {
		out = binary.LittleEndian.AppendUint64(out, word)
	}
	return out
}

// FromBytes decodes the result of Set.Bytes. It returns nil for an empty set, and an error for a wrong
// length.
func FromBytes(in []byte) (*Set, error) {
	if len(in) == 0 {
		return nil, nil
	}
	if len(in) != setBytes {
		return nil, fmt.Errorf("hashslot: a set of %d bytes; it has %d, or none", len(in), setBytes)
	}
	s := &Set{}
	for i := range s {
		s[i] = binary.LittleEndian.Uint64(in[8*i:])
	}
	if *s == (Set{}) {
		return nil, nil
	}
	return s, nil
}
