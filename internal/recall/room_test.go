package recall

import (
	"math/rand/v2"
	"testing"

	"aliquot/budget"
	"aliquot/limit"
)

// TestAFullTableForgetsTheOldestKeys: a table is whole since its youngest key that it forgot. If each key is used once,
// that is the time in which as many keys were used as it has room for. If keys come again, it is most of the time since
// which those in the table were used.
func TestAFullTableForgetsTheOldestKeys(t *testing.T) {
	const room, each = 10_000, 100_000 // room for keys; calls, one each millisecond
	const ms = second / 1000
	for name, of := range map[string]struct {
		key         func(call uint64, rng *rand.Rand) uint64
		mean, least float64 // of room
	}{
		"each key comes once": {func(call uint64, _ *rand.Rand) uint64 { return call }, .999, .999},
		"keys come again":     {func(_ uint64, rng *rand.Rand) uint64 { return rng.Uint64N(2 * room) }, .75, .5},
		"some come again": {func(call uint64, rng *rand.Rand) uint64 {
			if call%2 == 0 {
				return rng.Uint64N(room)
			}
			return room + call
		}, .55, .45},
	} {
		rng := rand.New(rand.NewPCG(1, 1))
		table, now := New(room, 0), budget.Instant(second)
		var sum, least budget.Instant = 0, hour
		for call := range uint64(each) {
			now += ms
			var k Ticket
			c := charge(bucket, of.key(call, rng), 1, now)
			table.Sent(&k, &c, now)
			table.Answered(&k, &c, true, limit.Outcome{Tokens: 5, Bucket: c.Bucket}, Debt{}, int64(now)/1000, now)
			if whole := now - table.whole; call >= each/2 {
				sum, least = sum+whole, min(least, whole)
			}
		}
		mean, lowest := float64(sum/ms)/(each/2)/room, float64(least/ms)/room
		t.Logf("%s: %.3f, at least %.3f", name, mean, lowest)
		if mean < of.mean || lowest < of.least {
			t.Errorf("%s: whole for %.3f of the calls that there is room for, at least %.3f; want %.3f and %.3f", name, mean, lowest, of.mean, of.least)
		}
	}
}
