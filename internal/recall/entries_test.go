package recall

import (
	"maps"
	"math/rand/v2"
	"runtime"
	"testing"

	"aliquot/budget"
	"aliquot/limit"
)

// TestEntriesAreAMap: entries hold what a map would, whatever was put, deleted and looked for before.
func TestEntriesAreAMap(t *testing.T) {
	rng, want, es := rand.New(rand.NewPCG(1, 1)), map[budget.KeyID]entry{}, entries{}
	places := map[budget.KeyID]int32{} // where they were
	for n := range 200_000 {
		key, e := keyOf(uint64(rng.IntN(3*blockSize))), entry{left: limit.Tokens(n)}
		es.warm([]budget.KeyID{key, keyOf(uint64(n))})
		es.hint(key, places[key])
		switch rng.IntN(3) {
		case 0:
			es.put(key, e)
			want[key], places[key] = e, es.place()
		case 1:
			es.delete(key)
			delete(want, key)
		}
		if n == 100_000 {
			es.clear()
			clear(want)
		}
		got, found := es.get(key)
		if is, known := want[key]; found != known || got != is || es.has(key) != known || es.len() != len(want) {
			t.Fatalf("after %d: %+v of %d, want %+v of %d", n, got, es.len(), is, len(want))
		}
	}
	if got := maps.Collect(es.all()); !maps.Equal(got, want) {
		t.Errorf("%d keys, want %d", len(got), len(want))
	}
}

// TestAFullTableTakes64MB: also one from which keys were dropped, because others came.
func TestAFullTableTakes64MB(t *testing.T) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, table, now := heap(), New(DefaultKeys, 0), budget.Instant(second)
	for n := range uint64(3 * DefaultKeys) {
		now++
		c, k := charge(bucket, n, 1, now), Ticket{}
		table.Sent(&k, &c, now)
		table.Answered(&k, &c, true, limit.Outcome{Bucket: c.Bucket}, Debt{}, int64(now), now)
	}
	if took := heap() - before; table.Len() > DefaultKeys || table.Len() <= DefaultKeys-maxDropped || took > 64e6 {
		t.Errorf("%d keys take %d bytes", table.Len(), took)
	}
	runtime.KeepAlive(table)
}
