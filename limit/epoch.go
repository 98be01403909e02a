package limit

import (
	"strconv"
	"strings"
)

// Stamp is the short name of a store's contents that every record carries: the
// FNV-1a hash, 32 bits, of the redis epoch; never 0.
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

// EpochBirth is when the contents named by a redis epoch, "<nonce>:<run id>:<birth>",
// began: microseconds of the store's clock. It is false for any other text.
func EpochBirth(epoch string) (int64, bool) {
	parts := strings.Split(epoch, ":")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" {
		return 0, false
	}
	birth, err := strconv.ParseInt(parts[2], 10, 64)
	return birth, err == nil && birth > 0 && birth <= MaxExact
}
