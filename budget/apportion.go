package budget

import (
	"cmp"
	"math/bits"
	"slices"
)

// apportion divides total by weight into whole units, exactly. Each part is the floor of its quota.
// The units left over by rounding go to the largest remainders (Hamilton's method), and ties go to
// the earlier index. If all weights are zero, the parts are equal.
func apportion(total int64, weights []int64) []int64 {
	n := len(weights)
	out := make([]int64, n)
	if n == 0 || total <= 0 {
		return out
	}
	var sum uint64
	for _, w := range weights {
		sum += uint64(max(w, 0))
	}
	weight := func(i int) uint64 { return uint64(max(weights[i], 0)) }
	if sum == 0 {
		sum = uint64(n)
		weight = func(int) uint64 { return 1 }
	}
	remainders := make([]uint64, n)
	left := total
	for i := range out {
		hi, lo := bits.Mul64(uint64(total), weight(i))
		q, r := bits.Div64(hi, lo, sum)
		out[i], remainders[i] = int64(q), r
		left -= int64(q)
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(remainders[b], remainders[a]) })
	for _, i := range order[:left] {
		out[i]++
	}
	return out
}
