package store

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

// Limits of all algorithms are charged together or not at all, each its own cost.
func TestMixedGroup(t *testing.T) {
	onBoth(t, func(t *testing.T, s, _ anyStore, epoch string, _ func()) {
		group := Group{}
		for _, a := range everyAlgorithm {
			v := viewOf(epoch, a, 10, time.Hour*24)
			v.Cost = limit.Tokens(2+a) * limit.Token
			if a == limit.Concurrency {
				v.Slot = 1
			}
			group.Limits = append(group.Limits, KeyView{Key: keyOf(a, 1), View: v})
		}
		for i, want := range []bool{true, false, false} {
			got, _, err := s.Take(t.Context(), epoch, []Group{group})
			if err != nil || got[0].Allowed != want {
				t.Fatalf("take %d: %+v, %v", i, got, err)
			}
			for j, out := range got[0].Limits {
				if left := limit.Tokens(8-j) * limit.Token; out.Tokens/limit.Token != left/limit.Token {
					t.Errorf("take %d: %v has %d left, not %d", i, everyAlgorithm[j], out.Tokens, left)
				}
			}
		}
	})
}
