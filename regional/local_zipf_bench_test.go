//go:build !race

package regional

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/engine"
)

// BenchmarkZipf is batches of 10, as a proxy sends them, over 100,000 keys of which a few
// are busy: the others are the store's to decide. It tells the processor time of a check,
// with the calls of Redis but without Redis.
func BenchmarkZipf(b *testing.B) {
	for _, redis := range []bool{false, true} {
		b.Run(map[bool]string{false: "memory", true: "redis"}[redis], func(b *testing.B) {
			benchZipf(b, benchDaemon(b, redis).limiter)
		})
	}
}

func benchZipf(b *testing.B, l *engine.Engine) {
	const keys, batch, calls = 100_000, 10, 4096
	names := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, keys-1)
	requests := make([]charge.Request, 0, calls*batch)
	for range cap(requests) {
		requests = append(requests, asked(fmt.Sprint("k", names.Uint64()))...)
	}
	b.ReportAllocs()
	b.SetParallelism(8)
	before := processorNanos(b)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		room, at := &charge.Scratch{}, rand.IntN(calls)
		for n := 0; pb.Next(); n++ {
			if n%batch != 0 {
				continue
			}
			at = (at + 1) % calls
			if _, err := l.DecideIn(context.Background(), requests[at*batch:][:batch], room); err != nil {
				b.Error(err)
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(processorNanos(b)-before)/float64(b.N), "cpu-ns/check")
}
