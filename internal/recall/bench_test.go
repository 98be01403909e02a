package recall

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"aliquot/budget"
	"aliquot/limit"
)

// BenchmarkCall is what the table does for one call to the store, of keys in no order, as calls of 64 leave and are
// answered together. With the most keys each call makes room for its key.
func BenchmarkCall(b *testing.B) {
	const together = 64
	for _, keys := range []uint64{1000, 100_000, 300_000, 10 * DefaultKeys} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			rng, table, now := rand.New(rand.NewPCG(1, 1)), New(DefaultKeys, 0), budget.Instant(second)
			var charges [together]Charge
			var tickets [together]Ticket
			asked := make([]budget.KeyID, together)
			call := func(key func(int) uint64) {
				now += 1000
				for i := range charges {
					charges[i] = charge(bucket, key(i), 1, now)
					asked[i] = charges[i].Key
				}
				table.Warm(asked)
				for i := range charges {
					table.Sent(&tickets[i], &charges[i], now)
				}
				table.WarmAnswers(func(yield func(*Ticket) bool) {
					for i := range tickets {
						yield(&tickets[i])
					}
				})
				for i := range charges {
					c := &charges[i]
					table.Answered(&tickets[i], c, true, limit.Outcome{Tokens: 5, Bucket: c.Bucket}, Debt{}, int64(now), now)
				}
			}
			for k := uint64(0); k < keys; k += together {
				call(func(i int) uint64 { return k + uint64(i) })
			}
			random := func(int) uint64 { return rng.Uint64N(keys) }
			b.ResetTimer()
			for n := 0; n < b.N; n += together {
				call(random)
			}
		})
	}
}
