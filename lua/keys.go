package lua

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"
)

const (
	// EpochKey holds the redis epoch of the store's contents.
	EpochKey = "aq:epoch"
	// HeardKey holds when a daemon of the region last took a lease: microseconds of
	// the store's clock. Like EpochKey it has no hash tag, so in a Redis Cluster
	// it stands in another slot than the records.
	HeardKey = "aq:heard"
	// HeardTTL is how long HeardKey stays: far above any sensible View.HeardWait, which
	// it bounds, and short enough that a region that is gone leaves nothing.
	HeardTTL = time.Hour
)

const (
	keyPrefix = "aq:{"
	keySuffix = ":b"
	hashChars = 22 // base64url of 16 bytes, unpadded
)

// Key names the bucket of one rule (by number) and client (by keyed hash):
// "aq:{<hash, base64url>}:<rule>:b". Only the hash is between the braces, so all
// buckets of one client share a slot, and no byte of a client's reaches the name.
func Key(rule uint32, hash [16]byte) string {
	b := make([]byte, 0, len(keyPrefix)+hashChars+len(keySuffix)+12)
	b = append(b, keyPrefix...)
	b = base64.RawURLEncoding.AppendEncode(b, hash[:])
	b = append(b, "}:"...)
	b = strconv.AppendUint(b, uint64(rule), 10)
	b = append(b, keySuffix...)
	return string(b)
}

// ParseKey is the inverse of Key; false for any other text.
func ParseKey(key string) (rule uint32, hash [16]byte, ok bool) {
	rest, found := strings.CutPrefix(key, keyPrefix)
	if !found || len(rest) < hashChars+2 || rest[hashChars:hashChars+2] != "}:" {
		return 0, hash, false
	}
	var src [hashChars]byte
	copy(src[:], rest)
	if n, err := base64.RawURLEncoding.Strict().Decode(hash[:], src[:]); err != nil || n != len(hash) {
		return 0, hash, false
	}
	digits, found := strings.CutSuffix(rest[hashChars+2:], keySuffix)
	n, err := strconv.ParseUint(digits, 10, 32)
	if !found || err != nil || digits[0] == '0' && digits != "0" || digits[0] == '+' {
		return 0, hash, false
	}
	return uint32(n), hash, true
}
