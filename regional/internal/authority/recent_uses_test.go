package authority

import (
	"maps"
	"math/rand/v2"
	"testing"

	"aliquot/budget"
)

// TestRecentUsesRememberWhatWasUsedLast: half of the most for certain, and never what was deleted.
func TestRecentUsesRememberWhatWasUsedLast(t *testing.T) {
	rng, uses := rand.New(rand.NewPCG(1, 1)), recentUses{}
	want, usedAt := map[budget.KeyID]spentUse{}, map[budget.KeyID]int{}
	puts := 0
	for n := range 50_000 {
		k := spentKey(rng.IntN(2000))
		switch {
		case n%10 == 9:
			uses.delete(k)
			delete(want, k)
		default:
			puts++
			want[k], usedAt[k] = spentUse{admitted: int64(n)}, puts
			uses.put(k, want[k])
		}
		k = spentKey(rng.IntN(2000))
		is, was := want[k]
		got, known := uses.get(k)
		if recently := was && puts-usedAt[k] < maxUnreported/2; recently && !known || known && got != is {
			t.Fatalf("after %d: %+v, %v; want %+v", n, got, known, is)
		}
		if uses.len() >= maxUnreported {
			t.Fatalf("%d keys", uses.len())
		}
	}
	if all := maps.Collect(uses.all()); len(all) != uses.len() {
		t.Errorf("%d of %d keys", len(all), uses.len())
	}
	uses.change(func(use spentUse) (spentUse, bool) {
		use.refunded = 1
		return use, use.admitted%2 == 0
	})
	for k, use := range uses.all() {
		if use.refunded != 1 || use.admitted%2 != 0 || use.admitted != want[k].admitted {
			t.Fatalf("%+v was not changed", use)
		}
	}
	if uses.len() == 0 {
		t.Error("all were forgotten")
	}
}
