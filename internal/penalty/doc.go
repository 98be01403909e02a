// Package penalty records how keys and connections behave, in memory of a fixed size: which keys are
// used most (HotKeys), which clients do not wait as they were told and are held back (Clients), and
// which connections get nothing but denials (Streak).
//
// The package is pure: the time is an argument, and there is no I/O. Its results can only deny or
// delay a request, never admit one. Keys are the hashes that Redis and the coordinators see. Their
// bits are evenly spread and unknown to clients, so no client can choose keys that displace the key
// of another client.
package penalty

import (
	"encoding/binary"

	"aliquot/budget"
)

// placeOf returns the place of a key in a table of sets, before the division by the number of sets.
// Rules with the same key attributes have the same hashes, and get different places.
func placeOf(key budget.KeyID) uint32 {
	const spread = 0x9E3779B1 // the golden ratio of 2^32: neighbours end up far apart
	return binary.LittleEndian.Uint32(key.Hash[:]) ^ key.Rule*spread
}
