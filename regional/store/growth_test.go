package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"aliquot/regional/store/memory"
)

// BenchmarkMemoryGrowth is a check of one of many keys, all of which have a record.
func BenchmarkMemoryGrowth(b *testing.B) {
	for _, keys := range []int{1_000, 100_000, 10_000_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			m, err := memory.New(memory.Config{MaxKeys: 2 * keys, Clock: func() int64 { return time.Now().UnixMicro() }})
			if err != nil {
				b.Fatal(err)
			}
			ctx := context.Background()
			epoch, _ := m.Epoch(ctx)
			// No record is full again, and then gone, before the end.
			v := coldView(epoch, bucket(1000, 1))
			groups := make([]Group, 64)
			for first := 0; first < keys; first += len(groups) {
				for i := range groups {
					groups[i] = one(key(first+i), 900, v)[0]
				}
				if _, _, err := m.Take(ctx, epoch, groups); err != nil {
					b.Fatal(err)
				}
			}
			chance := rand.New(rand.NewPCG(1, 2))
			picked := make([][]Group, 1<<16)
			for i := range picked {
				picked[i] = one(key(chance.IntN(keys)), 1, v)
			}
			i := 0
			for b.Loop() {
				if _, _, err := m.Take(ctx, epoch, picked[i%len(picked)]); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}
