package entitlement

import (
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

// Bucket returns a region's part of a limit, with both parts rounded down. For a counting limit the
// capacity is the rights.
func Bucket(l limit.Limit, s budget.Share) limit.Bucket { return l.Part(s.Burst, s.Rate) }

// Whole returns a region's right to a limit that it enforces by itself: a floor that is the whole
// limit, at any time. common is any right of the region at the same instant.
func Whole(common budget.Right) budget.Right {
	whole := budget.Share{Rate: budget.Unit, Burst: budget.Unit}
	common.Floor, common.Told, common.LimboFloor, common.Low = whole, whole, whole, whole
	return common
}

// KeyLimit returns a limit in the terms of the budget protocol, without a placement.
func KeyLimit(l limit.Limit) budget.KeyLimit {
	rate := l.PerSecond()
	return budget.KeyLimit{
		Capacity: int64(l.Capacity), Rate: rate.Micro, RateFrac: rate.Frac, Tail: l.Tail(), Algorithm: uint8(l.Algorithm) + 1,
	}
}

// AlgorithmOf returns the algorithm in a key's limit, or false if it has none that is known.
func AlgorithmOf(k budget.KeyLimit) (limit.Algorithm, bool) {
	a := limit.Algorithm(k.Algorithm - 1)
	if k.Algorithm == 0 || !a.Known() {
		return 0, false
	}
	return a, true
}

// Limit returns the limit from which KeyLimit made k, if its algorithm is a. It returns false if no
// limit of that algorithm gives k, or if no store could count by it.
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
