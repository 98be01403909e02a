// Package hashslot names the hash slots of a Redis Cluster: the parts in which it deals out
// its keys to servers. A region names the slots that it cannot reach, and the leader finds
// out which keys these are.
package hashslot

import "encoding/base64"

// Count is how many slots there are.
const Count = 16384

// Of is the slot of a hash tag, or of a key without one.
func Of(tag string) int { return of([]byte(tag)) }

// OfHash is the slot in which all records of one client stand: their names have the hash
// of the client as their tag, in base64url without padding.
func OfHash(hash [16]byte) int {
	var tag [22]byte
	base64.RawURLEncoding.Encode(tag[:], hash[:])
	return of(tag[:])
}

// of is CRC-16/XMODEM, by which a Redis Cluster names slots.
func of(tag []byte) int {
	const polynomial = 0x1021
	var crc uint16
	for _, b := range tag {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ polynomial
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % Count
}
