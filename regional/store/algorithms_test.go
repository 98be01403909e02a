package store

import (
	"testing"
	"time"

	"aliquot/limit"
)

// Limits of all algorithms are charged together or not at all, each its own cost.
func TestMixedGroup(t *testing.T) {
	onBoth(t, func(t *testing.T, s, _ anyStore, epoch string, _ func()) {
		group := Group{}
		for _, a := range everyAlgorithm {
			v := viewOf(epoch, a, 10, time.Hour*24)
			v.Cost = limit.Tokens(2+a) * limit.Token
			if a == limit.Concurrency {
				v.Slot = 1
			}
			group.Limits = append(group.Limits, KeyView{Key: keyOf(a, 1), View: v})
		}
		for i, want := range []bool{true, false, false} {
			got, _, err := s.Take(t.Context(), epoch, []Group{group})
			if err != nil || got[0].Allowed != want {
				t.Fatalf("take %d: %+v, %v", i, got, err)
			}
			for j, out := range got[0].Limits {
				if left := limit.Tokens(8-j) * limit.Token; out.Tokens/limit.Token != left/limit.Token {
					t.Errorf("take %d: %v has %d left, not %d", i, everyAlgorithm[j], out.Tokens, left)
				}
			}
		}
	})
}
