package lua

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"aliquot/limit"
)

const (
	// EpochKey holds the redis epoch of the store's contents.
	EpochKey = "aq:epoch"
	// HeardKey holds when a daemon of the region last took a lease, in microseconds of the store's
	// clock. Like EpochKey it has no hash tag, so in a Redis Cluster it is in another slot than the
	// records.
	HeardKey = "aq:heard"
	// RosterKey holds the list of the region's daemons; see package roster. It has no hash tag
	// either.
	RosterKey = "aq:daemons"
	// HeardTTL is how long HeardKey stays. It bounds View.HeardWait, so it is far above any
	// sensible one, even that of a window of 366 days. It is short enough that a region that is
	// gone leaves nothing for good.
	HeardTTL = 1000 * 24 * time.Hour
)

const (
	keyPrefix = "aq:{"
	hashChars = 22 // base64url of 16 bytes, unpadded
)

// suffixes are the last bytes of keys, by algorithm.
const suffixes = "bqfcls"

// Key returns the name of the record of one rule (by number and algorithm) and client (by keyed
// hash): "aq:{<hash, base64url>}:<rule>:<suffix>". Only the hash is between the braces, so all
// records of one client share a slot, and no byte of the client's own text is in the name. The
// suffix is b for a token bucket, q for a leaky one (a queue), f for a fixed window, c for a
// sliding counter, l for a sliding log and s for slots.
func Key(algorithm limit.Algorithm, rule uint32, hash [16]byte) string {
	b := make([]byte, 0, len(keyPrefix)+hashChars+14)
	b = append(b, keyPrefix...)
	b = base64.RawURLEncoding.AppendEncode(b, hash[:])
	b = append(b, "}:"...)
	b = strconv.AppendUint(b, uint64(rule), 10)
	b = append(b, ':', suffixes[algorithm])
	return string(b)
}

// ParseKey is the inverse of Key. It returns false for any other text.
func ParseKey(key string) (algorithm limit.Algorithm, rule uint32, hash [16]byte, ok bool) {
	rest, found := strings.CutPrefix(key, keyPrefix)
	if !found || len(rest) < hashChars+2 || rest[hashChars:hashChars+2] != "}:" {
		return 0, 0, hash, false
	}
	var src [hashChars]byte
	copy(src[:], rest)
	if n, err := base64.RawURLEncoding.Strict().Decode(hash[:], src[:]); err != nil || n != len(hash) {
		return 0, 0, hash, false
	}
	digits, suffix, found := strings.Cut(rest[hashChars+2:], ":")
	algorithm, known := algorithmOf(suffix)
	n, err := strconv.ParseUint(digits, 10, 32)
	if !found || !known || len(suffix) != 1 || err != nil || digits[0] == '0' && digits != "0" || digits[0] == '+' {
		return 0, 0, hash, false
	}
	return algorithm, uint32(n), hash, true
}

// algorithmOf returns the algorithm by the last byte of a key, as the scripts do.
func algorithmOf(key string) (limit.Algorithm, bool) {
	if key == "" {
		return 0, false
	}
	i := strings.IndexByte(suffixes, key[len(key)-1])
	return limit.Algorithm(max(i, 0)), i >= 0
}
