package authority

import (
	"math/rand/v2"
	"testing"

	"aliquot/budget"
)

// TestRecentUsesRememberWhatWasUsedLast: never what was deleted, and of the keys that were used last, half as many as there
// is room for, nearly all.
func TestRecentUsesRememberWhatWasUsedLast(t *testing.T) {
	rng, uses := rand.New(rand.NewPCG(1, 1)), recentUses{}
	want, usedAt := map[budget.KeyID]spentUse{}, map[budget.KeyID]int{}
	puts, recent, forgotten := 0, 0, 0
	for n := range 50_000 {
		k := spentKey(rng.IntN(2000))
		switch {
		case n%10 == 9:
			uses.delete(k)
			delete(want, k)
		default:
			puts++
			want[k], usedAt[k] = spentUse{admitted: int64(n)}, puts
			use := uses.find(k)
			if full := !uses.hasRoom(k); use == nil {
				before := uses.len()
				if use = uses.add(k); full != (uses.len() == before) || *use != (spentUse{}) {
					t.Fatalf("after %d: %d keys, then %d; no room: %v; %+v", n, before, uses.len(), full, use)
				}
			}
			*use = want[k]
		}
		k = spentKey(rng.IntN(2000))
		is, was := want[k]
		got := uses.find(k)
		if got != nil && *got != is {
			t.Fatalf("after %d: %+v; want %+v", n, got, is)
		}
		if was && puts-usedAt[k] < maxUnreported/2 {
			if recent++; got == nil {
				forgotten++
			}
		}
	}
	if forgotten*50 > recent || recent < 1000 {
		t.Errorf("forgot %d of %d that were used recently", forgotten, recent)
	}
	n := 0
	for k, use := range uses.all() {
		if n++; *use != want[k] {
			t.Fatalf("%+v; want %+v", use, want[k])
		}
		uses.delete(k)
	}
	if n < maxUnreported/2 || n > maxUnreported || uses.len() != 0 {
		t.Errorf("%d keys, %d after all were deleted", n, uses.len())
	}
}
