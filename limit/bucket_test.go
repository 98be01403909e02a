package limit

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

const second = int64(1_000_000)

func TestRefill(t *testing.T) {
	tests := []struct {
		name       string
		tokens     Tokens
		carry      int64
		b          Bucket
		from, to   int64
		want       Tokens
		wantsCarry int64
	}{
		{"the worked number", 0, 0, Bucket{100, Rate{2, 500_000}}, 0, 1_500_000, 3, 750_000},
		{"the carry is counted on", 0, 750_000, Bucket{100, Rate{2, 500_000}}, 0, 100_000, 1, 0},
		{"full voids the carry", 99, 999_999, Bucket{100, Rate{2, 500_000}}, 0, second, 100, 0},
		{"above the capacity is void", 500, 5, Bucket{100, Rate{}}, 0, 0, 100, 0},
		{"a clock that goes back earns nothing", 7, 5, Bucket{100, Rate{2, 0}}, second, 0, 7, 5},
		{"no rate earns nothing in 200 years", 7, 5, Bucket{100, Rate{}}, 0, 200 * 365 * 86400 * second, 7, 5},
		{"a year at the fastest", 0, 0, Bucket{MaxTokens, Rate{int64(MaxTokens), 999_999}}, 0, 365 * 86400 * second, MaxTokens, 0},
		{"a request a day: 11.574074 micro-tokens a second", 0, 0, Bucket{Token, Rate{11, 574_074}}, 0, 86400 * second, 999_999, 993_600},
		{"one millionth a second, 99 years", 0, 0, Bucket{Token, Rate{0, 1}}, 0, 99 * 365 * 86400 * second, 3122, 64_000},
		{"more than 100 years count as 100", 0, 0, Bucket{Token, Rate{0, 1}}, 0, 280 * 365 * 86400 * second, 3153, 600_000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tokens, carry := refill(tt.tokens, tt.carry, tt.b, tt.from, tt.to)
			if tokens != tt.want || carry != tt.wantsCarry {
				t.Fatalf("got %d and %d millionths, want %d and %d", tokens, carry, tt.want, tt.wantsCarry)
			}
		})
	}
}

// genBucket draws buckets of every size that the store accepts.
func genBucket(t *rapid.T, name string) Bucket {
	shift := rapid.IntRange(0, 50).Draw(t, name+" shift")
	return Bucket{
		Cap: Tokens(rapid.Int64Range(0, int64(MaxTokens)>>shift).Draw(t, name+" cap")),
		Rate: Rate{
			Micro: rapid.Int64Range(0, int64(MaxTokens)>>rapid.IntRange(0, 50).Draw(t, name+" rate shift")).Draw(t, name+" rate"),
			Frac:  rapid.Int64Range(0, 999_999).Draw(t, name+" frac"),
		},
	}
}

// exactly is what b earns in an interval, in millionths of a micro-token times a
// million: no rounding at all.
func exactly(r Rate, elapsed int64) *big.Int {
	perSecond := new(big.Int).Add(new(big.Int).Mul(big.NewInt(r.Micro), big.NewInt(million)), big.NewInt(r.Frac))
	return perSecond.Mul(perSecond, big.NewInt(elapsed))
}

// scaled brings tokens and carry to the unit of exactly.
func scaled(tokens Tokens, carry int64) *big.Int {
	n := new(big.Int).Mul(big.NewInt(int64(tokens)), big.NewInt(million))
	n.Add(n, big.NewInt(carry))
	return n.Mul(n, big.NewInt(million))
}

// Refill is the exact sum but for less than one millionth, or the capacity.
func TestRefillIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := genBucket(t, "b")
		before := Tokens(rapid.Int64Range(0, int64(b.Cap)).Draw(t, "tokens"))
		carry := rapid.Int64Range(0, 999_999).Draw(t, "carry")
		elapsed := rapid.Int64Range(0, maxSecs*million>>rapid.IntRange(0, 50).Draw(t, "shift")).Draw(t, "elapsed")
		tokens, rest := refill(before, carry, b, 5, 5+elapsed)

		want := new(big.Int).Add(scaled(before, carry), exactly(b.Rate, elapsed))
		if want.Cmp(scaled(b.Cap, 0)) >= 0 {
			// Within a millionth of full, either answer is right.
			short := new(big.Int).Sub(scaled(b.Cap, 0), scaled(tokens, rest))
			if tokens > b.Cap || short.Sign() < 0 || short.Cmp(big.NewInt(million)) >= 0 {
				t.Fatalf("got %d and %d, want full %d", tokens, rest, b.Cap)
			}
			return
		}
		lost := want.Sub(want, scaled(tokens, rest))
		if lost.Sign() < 0 || lost.Cmp(big.NewInt(million)) >= 0 {
			t.Fatalf("lost %v millionths of a millionth", lost)
		}
	})
}

// Settling half-way never gains, and loses less than one millionth.
func TestRefillInParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := genBucket(t, "b")
		tokens := Tokens(rapid.Int64Range(0, int64(b.Cap)).Draw(t, "tokens"))
		carry := rapid.Int64Range(0, 999_999).Draw(t, "carry")
		first := rapid.Int64Range(0, 1<<rapid.IntRange(1, 50).Draw(t, "1")).Draw(t, "first")
		then := rapid.Int64Range(0, 1<<rapid.IntRange(1, 50).Draw(t, "2")).Draw(t, "then")
		whole, wholeCarry := refill(tokens, carry, b, 0, first+then)
		part, partCarry := refill(tokens, carry, b, 0, first)
		part, partCarry = refill(part, partCarry, b, first, first+then)
		lost := new(big.Int).Sub(scaled(whole, wholeCarry), scaled(part, partCarry))
		if lost.Sign() < 0 || lost.Cmp(big.NewInt(million)) > 0 {
			t.Fatalf("whole %d+%d, in parts %d+%d", whole, wholeCarry, part, partCarry)
		}
	})
}

// The store counts a bucket exactly if each of its numbers is from 0 to its maximum.
func TestBucketsThatTheStoreCountsExactly(t *testing.T) {
	largest := Bucket{Cap: MaxTokens, Rate: Rate{Micro: int64(MaxTokens), Frac: million - 1}}
	for _, b := range []Bucket{{}, largest} {
		if !b.Valid() {
			t.Errorf("%+v is refused", b)
		}
	}
	for what, change := range map[string]func(*Bucket){
		"a capacity below 0":    func(b *Bucket) { b.Cap = -1 },
		"too large a capacity":  func(b *Bucket) { b.Cap++ },
		"a rate below 0":        func(b *Bucket) { b.Rate.Micro = -1 },
		"too fast a rate":       func(b *Bucket) { b.Rate.Micro++ },
		"a fraction below 0":    func(b *Bucket) { b.Rate.Frac = -1 },
		"a fraction of a whole": func(b *Bucket) { b.Rate.Frac = million },
	} {
		b := largest
		if change(&b); b.Valid() {
			t.Errorf("%s: %+v passes", what, b)
		}
	}
}
