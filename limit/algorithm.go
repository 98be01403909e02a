package limit

import (
	"math/bits"
	"time"
)

// Algorithm is how a limit counts. There are two families. A bucket earns tokens over time, and a
// region spends from a bucket of its own. A counting limit compares what is in use with a number of
// rights; a region's share is a part of the rights, and nothing is earned.
type Algorithm uint8

// The algorithms. The zero value is the token bucket.
const (
	// TokenBucket: a burst of Capacity, refilled at Rate.
	TokenBucket Algorithm = iota
	// LeakyBucket is a queue of Capacity that drains at Rate: a token bucket whose tokens are the
	// free places. The answer says when to proceed; see Decision.Delay.
	LeakyBucket
	// FixedWindow: Capacity in each window of the store's clock, floor(clock/Window).
	FixedWindow
	// SlidingCounter: at most Capacity in the present window plus a part of the previous one. That
	// part is the fraction of the previous window which a window that ends now still overlaps, as
	// if its use were spread evenly.
	SlidingCounter
	// SlidingLog: at most Capacity in any Window of time.
	SlidingLog
	// Concurrency: Capacity slots in use at a time. A slot is in use until it is released, and for
	// Window at most; it cannot be extended.
	Concurrency
	algorithms
)

// kinds says what each algorithm is like, by its number. The last row is of the numbers that no algorithm has.
var kinds = [algorithms + 1]struct {
	name                       string
	counts, logs, seesPrevious bool
	tail                       int64 // in windows
}{
	TokenBucket:    {name: "token_bucket"},
	LeakyBucket:    {name: "leaky_bucket"},
	FixedWindow:    {name: "fixed_window", counts: true, tail: 2},
	SlidingCounter: {name: "sliding_window_counter", counts: true, seesPrevious: true, tail: 2},
	SlidingLog:     {name: "sliding_window_log", counts: true, logs: true, tail: 1},
	Concurrency:    {name: "concurrency", counts: true, logs: true, tail: 1},
	algorithms:     {name: "unknown", counts: true},
}

// String returns the algorithm's name, as in a rules file.
func (a Algorithm) String() string { return kinds[min(a, algorithms)].name }

// Algorithms returns all algorithms, in the order of their numbers.
func Algorithms() []Algorithm {
	all := make([]Algorithm, algorithms)
	for a := range algorithms {
		all[a] = a
	}
	return all
}

// Known reports whether there is an algorithm of this number.
func (a Algorithm) Known() bool { return a < algorithms }

// Counts reports whether a limit of this algorithm is a counting limit: it compares use with
// rights. If not, it holds tokens.
func (a Algorithm) Counts() bool { return kinds[min(a, algorithms)].counts }

// Logs reports whether a record remembers every admission separately.
func (a Algorithm) Logs() bool { return kinds[min(a, algorithms)].logs }

// SeesPrevious reports whether a part of the previous window's use counts in the present window.
func (a Algorithm) SeesPrevious() bool { return kinds[min(a, algorithms)].seesPrevious }

// MaxEntries is the largest capacity, in whole tokens, of an algorithm that remembers every
// admission separately. It is also the number of admissions that a record remembers. A further one
// is merged with the previous one, and both count for as long as the later one.
const MaxEntries = 1000

// Tail returns how long an admission can outlast the right to it: the time until no store counts it
// any more, by a store's clock. For fixed windows that is two windows, because the labels of two
// stores may differ by one. For the sliding counter it is two, because an admission counts again as
// part of the previous window.
func (l Limit) Tail() time.Duration {
	return time.Duration(tail(l.Algorithm, l.Window.Microseconds())) * time.Microsecond
}

// tail returns Limit.Tail in microseconds.
func tail(a Algorithm, window int64) int64 { return kinds[min(a, algorithms)].tail * window }

// PerSecond returns the long-term rate of the limit, rounded down: for a counting limit, its
// capacity a window.
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

// Since returns an instant of a store's clock, in microseconds: what was admitted before it counts
// no more at now. l is a counting limit.
func (l Limit) Since(now int64) int64 {
	window := l.Window.Microseconds()
	switch {
	case l.Algorithm.Logs():
		return now - window
	case l.Algorithm.SeesPrevious():
		return now - now%window - window
	default:
		return now - now%window
	}
}

// Overlap returns which part of the previous window's use counts at an instant of the store's clock, in
// microseconds of a window. l is a counting limit.
func (l Limit) Overlap(now int64) int64 { return overlap(l.Algorithm, l.Window.Microseconds(), now) }

// overlap returns Limit.Overlap.
func overlap(a Algorithm, window, now int64) int64 {
	if !a.SeesPrevious() {
		return 0
	}
	return window - now%window
}

// label returns the number of a window of a store's clock. Windows count from 1; 0 is none.
func label(now, window int64) int64 { return now/window + 1 }
