package memory

import (
	"math"

	"aliquot/limit"
)

// coldRecord is a cold limit.Record in 20 bytes. It has no generation, and its stamp is the
// store's. It consists of words of 32 bits, because with wider words a map would spend 8 bytes of
// padding on every key.
//
// The first two words hold the tokens, plus raised so that they are above 0, and the low bits of
// the carry. The next two words hold the time and the high bits of the carry. The last word holds
// when the record is full, in whole seconds since the store's birth.
type coldRecord [5]uint32

const (
	// never is an expiry later than a coldRecord can express, 136 years.
	never = math.MaxUint32
	// tokenBits hold the tokens or the debt of any record, once raised is added.
	tokenBits = 51
	raised    = 1 << (tokenBits - 1) // more than limit.MaxTokens
	// timeBits hold any instant of a store's clock, up to limit.MaxExact.
	timeBits = 53
	// carryLow is how many bits of the carry fit beside the tokens.
	carryLow = 64 - tokenBits
)

// newColdRecord returns a record in 20 bytes. It rounds the expiry up, because a record that leaves
// early comes back full.
func (s *shard) newColdRecord(r limit.Record, expires int64) coldRecord {
	tokens := uint64(r.Tokens+raised) | uint64(r.Carry)<<tokenBits
	at := uint64(r.At) | uint64(r.Carry)>>carryLow<<timeBits
	seconds := (expires-s.birth)/1_000_000 + 1
	return coldRecord{uint32(tokens), uint32(tokens >> 32), uint32(at), uint32(at >> 32), uint32(min(seconds, never))}
}

func (s *shard) record(c coldRecord) limit.Record {
	tokens, at := uint64(c[0])|uint64(c[1])<<32, uint64(c[2])|uint64(c[3])<<32
	return limit.Record{
		Stamp: s.stamp, Tokens: limit.Tokens(tokens&(1<<tokenBits-1)) - raised, At: int64(at & (1<<timeBits - 1)),
		Carry: int64(tokens>>tokenBits | at>>timeBits<<carryLow),
	}
}

func (s *shard) expired(c coldRecord, now int64) bool {
	return c[4] != never && now >= s.birth+int64(c[4])*1_000_000
}
