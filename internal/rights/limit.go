package rights

import (
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

// Bucket is a region's part of a limit, both parts rounded down. Of a limit that
// counts, the capacity is the rights.
func Bucket(l limit.Limit, s budget.Share) limit.Bucket { return l.Part(s.Burst, s.Rate) }

// KeyLimit is a limit as the budget protocol knows it, with no placement asked for.
func KeyLimit(l limit.Limit) budget.KeyLimit {
	rate := l.PerSecond()
	return budget.KeyLimit{
		Capacity: int64(l.Capacity), Rate: rate.Micro, RateFrac: rate.Frac, Tail: l.Tail(), Algorithm: uint8(l.Algorithm) + 1,
	}
}

// AlgorithmOf is the algorithm that a key's limit was said to be of; false if it was not.
func AlgorithmOf(k budget.KeyLimit) (limit.Algorithm, bool) {
	if k.Algorithm == 0 || k.Algorithm > uint8(limit.Concurrency)+1 {
		return 0, false
	}
	return limit.Algorithm(k.Algorithm - 1), true
}

// Limit is the limit that KeyLimit made a key's of, if its algorithm is a; false for
// one that no limit of that algorithm has, or that no store could count by.
func Limit(k budget.KeyLimit, a limit.Algorithm) (l limit.Limit, ok bool) {
	l = limit.Limit{Algorithm: a, Capacity: limit.Tokens(k.Capacity)}
	if !a.Counts() {
		l.Rate = limit.Rate{Micro: k.Rate, Frac: k.RateFrac}
		return l, k.Tail == 0
	}
	// The tail is a whole number of windows.
	l.Window = time.Second
	l.Window = k.Tail / (l.Tail() / l.Window)
	remembered := !a.Logs() || l.Capacity <= limit.MaxEntries*limit.Token
	return l, remembered && k.Tail > 0 && l.Tail() == k.Tail
}
