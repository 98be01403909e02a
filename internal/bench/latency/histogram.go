// Package latency counts how long things took.
package latency

import (
	"math/bits"
	"time"
)

// subBits gives 32 buckets to every power of two: a quantile is at most 3 % off.
const subBits = 5

// Histogram counts durations in buckets whose width grows with their value, so
// that any number of samples costs 16 KiB. The zero value is empty. One goroutine
// uses it at a time.
type Histogram struct {
	counts [64 << subBits]int64
	total  int64
	max    time.Duration
}

// Add counts one duration; a negative one counts as none.
func (h *Histogram) Add(d time.Duration) {
	h.counts[bucketOf(d)]++
	h.total++
	h.max = max(h.max, d)
}

// Merge adds what another one counted.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.total += o.total
	h.max = max(h.max, o.max)
}

// Quantile is an upper bound of the q-quantile, at most 3 % above it.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank, seen := int64(q*float64(h.total)), int64(0)
	for i, n := range h.counts {
		if seen += n; seen > rank {
			return min(upperEdge(i), h.max)
		}
	}
	return h.max
}

// Count is how many durations were counted.
func (h *Histogram) Count() int64 { return h.total }

// Summary is what a histogram tells at a glance; zero if nothing was counted.
func (h *Histogram) Summary() Summary {
	return Summary{P50: h.Quantile(.5), P90: h.Quantile(.9), P99: h.Quantile(.99), P999: h.Quantile(.999), Max: h.max}
}

// Summary is quantiles of durations, nanoseconds in JSON, at most 3 % too high, and the
// longest one.
type Summary struct {
	P50  time.Duration `json:"p50"`
	P90  time.Duration `json:"p90"`
	P99  time.Duration `json:"p99"`
	P999 time.Duration `json:"p999"`
	Max  time.Duration `json:"max"`
}

// bucketOf: values below 32 ns have a bucket each; above, the exponent and the
// five bits after the leading one number the bucket.
func bucketOf(d time.Duration) int {
	v := uint64(max(d, 0))
	if v < 1<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return (shift+1)<<subBits + int(v>>shift) - 1<<subBits
}

func upperEdge(i int) time.Duration {
	if i < 1<<subBits {
		return time.Duration(i)
	}
	shift := i>>subBits - 1
	return time.Duration((uint64(i&(1<<subBits-1))+1<<subBits+1)<<shift - 1)
}
