package limit

import (
	"math/bits"
	"time"
)

// Algorithm is how a limit counts. There are two families. Buckets hold tokens that
// are earned with time; what a region may spend of them is a bucket of its own. The
// others count what is in use against a number of rights; a region's share is a part
// of the rights, and nothing is earned.
type Algorithm uint8

// The algorithms. The zero value is the token bucket.
const (
	// TokenBucket: a burst of Capacity, refilled at Rate.
	TokenBucket Algorithm = iota
	// LeakyBucket is a queue of Capacity that drains at Rate: a token bucket whose
	// tokens are the free places. The answer tells when to proceed; see
	// Decision.Delay.
	LeakyBucket
	// FixedWindow: Capacity in each window of the store's clock, floor(clock/Window).
	FixedWindow
	// SlidingCounter: the present window's count and the part of the one before that
	// a window ending now would still overlap, were it spread evenly, are at most
	// Capacity.
	SlidingCounter
	// SlidingLog: Capacity in any Window of time.
	SlidingLog
	// Concurrency: Capacity slots in use at a time. A slot is in use until it is
	// released, and at most for Window; it cannot be extended.
	Concurrency
	algorithms
)

// String is the algorithm's name, as in a rules file.
func (a Algorithm) String() string {
	if a >= algorithms {
		return "unknown"
	}
	return [algorithms]string{
		"token_bucket", "leaky_bucket", "fixed_window", "sliding_window_counter", "sliding_window_log", "concurrency",
	}[a]
}

// Counts reports whether the algorithm counts use against rights. If not, it holds
// tokens.
func (a Algorithm) Counts() bool { return a >= FixedWindow }

// Logs reports whether every admission is remembered by itself.
func (a Algorithm) Logs() bool { return a == SlidingLog || a == Concurrency }

// MaxEntries is the largest capacity, in whole tokens, of an algorithm that
// remembers every admission by itself, and how many of them a record remembers: one
// more is remembered along with the one before, for as long as the later of the two.
const MaxEntries = 1000

// Tail is how long what was admitted can outlast the right to it: until no store
// counts it any more, by a store's clock. Two stores' labels of fixed windows may
// differ by one, hence the second window there; the sliding counter counts what it
// admitted as the window before for a second time.
func (l Limit) Tail() time.Duration {
	return time.Duration(tail(l.Algorithm, l.Window.Microseconds())) * time.Microsecond
}

// tail is Limit.Tail in microseconds.
func tail(a Algorithm, window int64) int64 {
	switch a {
	case FixedWindow, SlidingCounter:
		return 2 * window
	case SlidingLog, Concurrency:
		return window
	default:
		return 0
	}
}

// PerSecond is the rate that the limit allows over long times: for a limit that
// counts, its capacity a window. It is rounded down.
func (l Limit) PerSecond() Rate {
	if !l.Algorithm.Counts() {
		return l.Rate
	}
	window := uint64(max(l.Window.Microseconds(), 1))
	hi, lo := bits.Mul64(uint64(l.Capacity), million)
	micro, rest := bits.Div64(hi, lo, window)
	hi, lo = bits.Mul64(rest, million)
	frac, _ := bits.Div64(hi, lo, window)
	return Rate{Micro: int64(micro), Frac: int64(frac)}
}

// label numbers the windows of a store's clock, from 1 on: 0 is none.
func label(now, window int64) int64 { return now/window + 1 }
