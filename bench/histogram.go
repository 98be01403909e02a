package bench

import (
	"math/bits"
	"time"
)

// subBits gives 32 buckets to every power of two: a quantile is at most 3 % off.
const subBits = 5

// histogram counts durations in buckets whose width grows with their value, so
// that any number of samples costs 16 KiB. The zero value is empty.
type histogram struct {
	counts [64 << subBits]int64
	total  int64
	max    time.Duration
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucketOf(d)]++
	h.total++
	h.max = max(h.max, d)
}

func (h *histogram) merge(o *histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.total += o.total
	h.max = max(h.max, o.max)
}

// quantile is an upper bound of the q-quantile, at most 3 % above it.
func (h *histogram) quantile(q float64) time.Duration {
	rank, seen := int64(q*float64(h.total)), int64(0)
	for i, n := range h.counts {
		if seen += n; seen > rank {
			return min(upperEdge(i), h.max)
		}
	}
	return h.max
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
