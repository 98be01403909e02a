package store

import (
	"context"
	"sync/atomic"
	"testing"

	"aliquot/regional/store/memory"
	"aliquot/regional/store/storetest"
)

const second = int64(1_000_000)

var (
	everyAlgorithm     = storetest.Algorithms
	key, keyOf         = storetest.Key, storetest.KeyOf
	coldView, viewOf   = storetest.ColdView, storetest.ViewOf
	bucket, one, admit = storetest.Bucket, storetest.One, storetest.Admit
)

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
