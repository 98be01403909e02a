package store

import (
	"encoding/binary"
	"time"

	"aliquot/limit"
	"aliquot/lua"
)

var everyAlgorithm = []limit.Algorithm{
	limit.TokenBucket, limit.LeakyBucket, limit.FixedWindow, limit.SlidingCounter, limit.SlidingLog, limit.Concurrency,
}

// keyOf is the n-th key of a rule of an algorithm.
func keyOf(a limit.Algorithm, n int) string {
	var hash [16]byte
	binary.BigEndian.PutUint64(hash[8:], uint64(n))
	return lua.Key(a, uint32(1+a), hash)
}

// viewOf is a cold view of a limit of whole tokens in a window.
func viewOf(epoch string, a limit.Algorithm, tokens int64, window time.Duration) limit.View {
	v := coldView(epoch, limit.Bucket{Cap: limit.Tokens(tokens) * limit.Token})
	v.Algorithm = a
	if a.Counts() {
		v.Window = window.Microseconds()
	} else {
		v.Floor.Rate = limit.Rate{Micro: int64(v.Floor.Cap) * int64(time.Second) / int64(window)}
	}
	return v
}
