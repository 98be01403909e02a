// Package storetest has the keys, limits and calls that tests of all kinds of stores share.
package storetest

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"aliquot/limit"
	"aliquot/lua"
)

// Algorithms are all algorithms.
var Algorithms = limit.Algorithms()

// Key returns the n-th key of rule 1, a token bucket. Keys of one shard are 64 apart.
func Key(n int) string { return KeyOf(limit.TokenBucket, n) }

// KeyOf returns the n-th key of the rule of an algorithm.
func KeyOf(a limit.Algorithm, n int) string {
	var hash [16]byte
	binary.BigEndian.PutUint64(hash[8:], uint64(n))
	return lua.Key(a, uint32(1+a), hash)
}

// Bucket returns a bucket of whole tokens, with its rate in tokens a second.
func Bucket(capacity, rate int64) limit.Bucket {
	return limit.Bucket{Cap: limit.Tokens(capacity) * limit.Token, Rate: limit.Rate{Micro: rate * 1_000_000}}
}

// ColdView returns the view of a cold token bucket in a live region.
func ColdView(epoch string, floor limit.Bucket) limit.View {
	return limit.View{Floor: floor, Phase: limit.Live, Until: limit.MaxExact, Stamp: limit.Stamp(epoch)}
}

// ViewOf returns the view of a cold limit of whole tokens in a window.
func ViewOf(epoch string, a limit.Algorithm, tokens int64, window time.Duration) limit.View {
	v := ColdView(epoch, limit.Bucket{Cap: limit.Tokens(tokens) * limit.Token})
	v.Algorithm = a
	if a.Counts() {
		v.Window = window.Microseconds()
	} else {
		v.Floor.Rate = limit.Rate{Micro: int64(v.Floor.Cap) * int64(time.Second) / int64(window)}
	}
	return v
}

// One returns a request of whole tokens of one limit.
func One(key string, cost int64, v limit.View) []lua.Group {
	return []lua.Group{{Cost: limit.Tokens(cost) * limit.Token, Limits: []lua.KeyView{{Key: key, View: v}}}}
}

// Admit takes whole tokens of one cold key from a store, and reports whether they were admitted.
func Admit(t testing.TB, s interface {
	Take(context.Context, string, []lua.Group) ([]lua.Result, int64, error)
}, epoch, key string, cost int64, floor limit.Bucket) bool {
	t.Helper()
	got, _, err := s.Take(context.Background(), epoch, One(key, cost, ColdView(epoch, floor)))
	if err != nil {
		t.Fatal(err)
	}
	return got[0].Allowed
}
