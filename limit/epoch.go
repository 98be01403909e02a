package limit

import (
	"strconv"
	"strings"
)

// Stamp returns the short name of a store's contents that every record carries: the 32-bit FNV-1a
// hash of the redis epoch, never 0.
func Stamp(epoch string) uint32 {
	const offset, prime = 2166136261, 16777619
	h := uint32(offset)
	for i := range len(epoch) {
		h = (h ^ uint32(epoch[i])) * prime
	}
	if h == 0 {
		return 1
	}
	return h
}

// EpochBirth returns when the contents named by a redis epoch, "<nonce>:<run id>:<birth>", began,
// in microseconds of the store's clock. It returns false for any other text.
func EpochBirth(epoch string) (int64, bool) {
	parts := strings.Split(epoch, ":")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" {
		return 0, false
	}
	birth, err := strconv.ParseInt(parts[2], 10, 64)
	return birth, err == nil && birth > 0 && birth <= MaxExact
}
