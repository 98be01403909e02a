package limit

// MaxExact is the largest integer that every part of the store counts exactly, because Lua's
// numbers are doubles.
const MaxExact = 1<<53 - 1

const (
	million = 1_000_000
	// maxSecs is the longest time that is refilled at once: 100 years. It keeps Frac*secs, the
	// largest product of a slow rate, below MaxExact.
	maxSecs = 100 * 365 * 24 * 3600
)

// Min returns the smaller of b and o in each part.
func (b Bucket) Min(o Bucket) Bucket {
	return Bucket{Cap: min(b.Cap, o.Cap), Rate: b.Rate.Min(o.Rate)}
}

// Min returns the slower of r and o.
func (r Rate) Min(o Rate) Rate {
	if o.Micro < r.Micro || o.Micro == r.Micro && o.Frac < r.Frac {
		return o
	}
	return r
}

// Valid reports whether the store can count with b: its capacity and its rate a second are from 0
// to MaxTokens, and its fraction is below a million.
func (b Bucket) Valid() bool {
	return b.Cap >= 0 && b.Cap <= MaxTokens &&
		b.Rate.Micro >= 0 && b.Rate.Micro <= int64(MaxTokens) &&
		b.Rate.Frac >= 0 && b.Rate.Frac < million
}

// refill adds what b earns between two readings of the store's clock, in microseconds, and clamps
// the result at b.Cap. Tokens below 0 are a debt, which is paid first. carry is what was earned
// before and is less than a micro-token, in millionths. Rounding loses less than one millionth a
// call. A clock that stops or goes back earns nothing.
//
// Worked number: 2.5 micro-tokens a second is {Micro: 2, Frac: 500000}. Over 1.5 s: low = 2*500000
// + 500000*1 + 500000*500000/1e6 = 1.75 million millionths, so tokens grow by 2*1 + 1 = 3 and carry
// is 750000.
func refill(tokens Tokens, carry int64, b Bucket, from, to int64) (Tokens, int64) {
	if to <= from {
		return clamp(tokens, carry, b.Cap)
	}
	elapsed := to - from
	secs, us := elapsed/million, elapsed%million
	if b.Rate.Micro > 0 && secs > int64(b.Cap-min(tokens, 0))/b.Rate.Micro+2 {
		return b.Cap, 0
	}
	if secs > maxSecs {
		secs, us = maxSecs, 0
	}
	whole, low := earned(b.Rate, secs, us)
	low += carry
	return clamp(tokens+Tokens(whole+low/million), low%million, b.Cap)
}

// earned returns what a rate earns in secs seconds and us microseconds: whole micro-tokens, and
// millionths of a micro-token on top.
func earned(r Rate, secs, us int64) (whole, low int64) {
	whole = r.Micro*secs + (r.Micro/million)*us
	low = (r.Micro%million)*us + r.Frac*secs + r.Frac*us/million
	return whole, low
}

// clamp discards what is above a capacity, together with the carry.
func clamp(tokens Tokens, carry int64, most Tokens) (Tokens, int64) {
	if tokens >= most {
		return most, 0
	}
	return tokens, carry
}
