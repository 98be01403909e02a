// Package penalty tells how keys and connections behave, in memory of a fixed size
// whatever they do: which keys are asked most (HotKeys), which clients ask before they
// were told to and are held back for it (Clients), and which connections hear nothing
// but denials (Streak).
//
// It computes values from values: the time is an argument, and there is no I/O. What it
// holds can only deny or delay, never admit. Keys are the hashes that Redis and the
// coordinators see; their bits are evenly spread and unknown to clients, so that nobody
// can choose keys that crowd another's out.
package penalty

import (
	"encoding/binary"

	"aliquot/budget"
)

// placeOf is where a key belongs in a table of sets, for a mask. Rules with the same key
// attributes have the same hashes, and are to lie apart.
func placeOf(key budget.KeyID) uint32 {
	const spread = 0x9E3779B1 // the golden ratio of 2^32: neighbours end up far apart
	return binary.LittleEndian.Uint32(key.Hash[:]) ^ key.Rule*spread
}
