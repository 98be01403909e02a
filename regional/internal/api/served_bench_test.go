//go:build !race

package api

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"aliquot/internal/checkwire"
	"aliquot/rules"
)

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
			benchServed(b, serviceOf(b, yaml), c.keys)
		})
	}
}

func benchServed(b *testing.B, s *Service, keys uint64) {
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
}
