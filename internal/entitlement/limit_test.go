package entitlement_test

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/limit"
)

// TestLimitIsTheReverseOfKeyLimit: what a region learns of a key that others use is the
// limit they go by.
func TestLimitIsTheReverseOfKeyLimit(t *testing.T) {
	slow := limit.Rate{Micro: 11, Frac: 574_074}
	fast := limit.Rate{Micro: int64(limit.MaxTokens)}
	for _, a := range limit.Algorithms() {
		limits := []limit.Limit{{Capacity: 3 * limit.Token, Rate: slow}, {Capacity: limit.MaxTokens, Rate: fast}}
		if a.Counts() {
			limits = []limit.Limit{
				{Capacity: limit.Token, Window: time.Second}, {Capacity: 5 * limit.Token, Window: 1500 * time.Millisecond},
				{Capacity: 100 * limit.Token, Window: 7 * time.Second}, {Capacity: 100 * limit.Token, Window: time.Hour},
			}
		}
		for _, l := range limits {
			l.Algorithm = a
			if got, ok := entitlement.Limit(entitlement.KeyLimit(l), a); !ok || got != l {
				t.Errorf("%+v came back as %+v, %t", l, got, ok)
			}
		}
	}
	windows := entitlement.KeyLimit(limit.Limit{Algorithm: limit.FixedWindow, Capacity: limit.Token, Window: time.Minute})
	odd := windows
	odd.Tail++
	for k, a := range map[budget.KeyLimit]limit.Algorithm{
		windows:                  limit.TokenBucket,
		{Capacity: 1, Rate: 1}:   limit.SlidingLog,
		odd:                      limit.FixedWindow,
		{Capacity: 1, Tail: -10}: limit.Concurrency,
		{Capacity: int64(limit.MaxEntries*limit.Token) + 1, Tail: time.Second}: limit.SlidingLog,
	} {
		if l, ok := entitlement.Limit(k, a); ok {
			t.Errorf("%+v is no %v, it was read as %+v", k, a, l)
		}
	}
}
