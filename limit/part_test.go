package limit

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestPartOfARateIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rate{
			Micro: rapid.Int64Range(0, int64(MaxTokens)).Draw(t, "micro"),
			Frac:  rapid.Int64Range(0, million-1).Draw(t, "frac"),
		}
		part := rapid.Int32Range(0, 1<<20).Draw(t, "part")
		want := new(big.Int).Mul(big.NewInt(r.Micro), big.NewInt(million))
		want.Add(want, big.NewInt(r.Frac)).Mul(want, big.NewInt(int64(part))).Rsh(want, 20)
		got := Limit{Rate: r}.Part(0, part).Rate
		have := new(big.Int).Mul(big.NewInt(got.Micro), big.NewInt(million))
		have.Add(have, big.NewInt(got.Frac))
		if have.Cmp(want) != 0 || got.Frac >= million {
			t.Fatalf("%v of %v is %v, want %v millionths", part, r, got, want)
		}
	})
}
