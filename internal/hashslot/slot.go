// Package hashslot computes the hash slots of a Redis Cluster, by which its keys are divided among
// its servers. A region reports the slots that it cannot reach, and the leader computes which keys
// are in them. The package is pure.
package hashslot

import "encoding/base64"

// Count is the number of slots.
const Count = 16384

// Of returns the slot of a hash tag, or of a key without a tag.
func Of(tag string) int { return of([]byte(tag)) }

// OfHash returns the slot of all records of one client. The tag of their names is the hash of the
// client, in base64url without padding.
func OfHash(hash [16]byte) int {
	var tag [22]byte
	base64.RawURLEncoding.Encode(tag[:], hash[:])
	return of(tag[:])
}

// of returns the slot of a tag: its CRC-16/XMODEM, modulo Count.
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
