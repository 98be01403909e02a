package memory

import (
	"encoding/binary"
	"testing"
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

// takeOne is one limit's outcome of a request of whole tokens.
func takeOne(t *testing.T, s *Store, epoch, key string, cost int64, v limit.View) (bool, limit.Outcome) {
	t.Helper()
	got, _, err := s.Take(t.Context(), epoch, one(key, cost, v))
	if err != nil {
		t.Fatal(err)
	}
	return got[0].Allowed, got[0].Limits[0]
}

func applyOne(t *testing.T, s *Store, epoch, key string, c limit.Change) limit.Applied {
	t.Helper()
	got, _, err := s.Apply(t.Context(), epoch, []lua.Change{{Key: key, Change: c}})
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}
