//go:build !race

package regional

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"aliquot/internal/checkwire"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/engine"
	"aliquot/rules"
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

// BenchmarkServed is what the daemon does of batches of 256 with a store in the process, from
// bytes to bytes: all of keys whose tokens are here, the same where each check goes to the
// store, and by Zipf over keys of which a part is here.
func BenchmarkServed(b *testing.B) {
	for _, c := range []struct {
		keys  uint64
		local bool
	}{{1000, true}, {1000, false}, {100_000, true}} {
		b.Run(fmt.Sprintf("keys=%d/local=%t", c.keys, c.local), func(b *testing.B) {
			yaml := fmt.Sprintf("defaults: {enforcement: strict}\nrules:\n  - id: r0\n    local_cache: %t\n    params: {capacity: 1000000000, refill_rate: 1000000}\n", c.local)
			d, _ := startLive(b, testConfig(newLeader(b, yaml).address()))
			benchServed(b, d.service, c.keys)
		})
	}
}

func benchServed(b *testing.B, s *service, keys uint64) {
	const size, calls = 256, 256
	names := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, keys-1)
	messages := make([][]byte, calls)
	for i := range messages {
		for range size {
			r := checkwire.Request{Cost: 1, Attributes: rules.Attributes{{Name: "api_key", Value: fmt.Sprint("sk_live_", names.Uint64())}}}
			messages[i] = r.AppendToBatch(messages[i])
		}
	}
	b.ReportAllocs()
	b.SetParallelism(4)
	before := processorNanos(b)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		at := rand.IntN(calls)
		for n := 0; pb.Next(); n++ {
			if n%size == 0 {
				s.call(b, batch, messages[at%calls])
				at++
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(processorNanos(b)-before)/float64(b.N), "cpu-ns/check")
}
