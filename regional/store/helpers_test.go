package store

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"testing"

	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/store/memory"
)

const second = int64(1_000_000)

func bucket(capacity, rate int64) limit.Bucket {
	return limit.Bucket{Cap: limit.Tokens(capacity) * limit.Token, Rate: limit.Rate{Micro: rate * 1_000_000}}
}

// key is the n-th key of rule 1; keys of one shard are 64 apart.
func key(n int) string {
	var hash [16]byte
	binary.BigEndian.PutUint64(hash[8:], uint64(n))
	return lua.Key(limit.TokenBucket, 1, hash)
}

func coldView(epoch string, floor limit.Bucket) limit.View {
	return limit.View{Floor: floor, Phase: limit.Live, Until: limit.MaxExact, Stamp: limit.Stamp(epoch)}
}

func one(key string, cost int64, v limit.View) []Group {
	return []Group{{Cost: limit.Tokens(cost) * limit.Token, Limits: []KeyView{{Key: key, View: v}}}}
}

// clock is a clock that tests set.
type clock struct{ us atomic.Int64 }

func newMemory(t testing.TB, maxKeys int) (*memory.Store, *clock, string) {
	t.Helper()
	c := &clock{}
	c.us.Store(1000 * second)
	m, err := memory.New(memory.Config{MaxKeys: maxKeys, Clock: c.us.Load})
	if err != nil {
		t.Fatal(err)
	}
	epoch, _ := m.Epoch(context.Background())
	return m, c, epoch
}

// admit takes whole tokens of one cold key and reports the answer.
func admit(t testing.TB, s interface {
	Take(context.Context, string, []Group) ([]Result, int64, error)
}, epoch, key string, cost int64, floor limit.Bucket) bool {
	t.Helper()
	got, _, err := s.Take(context.Background(), epoch, one(key, cost, coldView(epoch, floor)))
	if err != nil {
		t.Fatal(err)
	}
	return got[0].Allowed
}
