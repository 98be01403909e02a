package limit

import "math/bits"

// partUnit is the whole of a limit in the units of Part.
const partUnit = 20 // bits

// Part returns the local bucket of a share of l. burst and rate are parts of the limit in units of
// 2^-20, from 0 to 1<<20. Both results are rounded down, the rate to a millionth of a micro-token a
// second. The products are computed in 128 bits.
func (l Limit) Part(burst, rate int32) Bucket {
	hi, lo := bits.Mul64(uint64(l.Capacity), uint64(burst))
	return Bucket{
		Cap:  Tokens(hi<<(64-partUnit) | lo>>partUnit),
		Rate: l.Rate.part(uint64(rate)),
	}
}

// part counts in millionths of a micro-token. A rate has up to 70 bits of them.
func (r Rate) part(part uint64) Rate {
	hi, lo := bits.Mul64(uint64(r.Micro), million)
	lo, carry := bits.Add64(lo, uint64(r.Frac), 0)
	hi += carry
	top, low := bits.Mul64(lo, part)
	top += hi * part // part is at most 2^20, so nothing is lost above
	lo = top<<(64-partUnit) | low>>partUnit
	hi = top >> partUnit
	micro, frac := bits.Div64(hi, lo, million)
	return Rate{Micro: int64(micro), Frac: int64(frac)}
}
