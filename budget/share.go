// Package budget splits one limit over regions. It holds the two state machines
// of the budget protocol, the leader's and a region's, and the ledger between
// them, as pure code: no I/O, no clock, no goroutine, no float. docs/protocol.md
// explains the protocol; the tests in this package and in sim check it.
package budget

import "math/bits"

// Unit is the whole of a limit: shares are fractions in units of 2^-20.
const Unit = 1 << 20

// Share is a fraction of one limit, of its rate and of its burst apart, each from
// 0 to Unit. Both parts obey every rule of the protocol by themselves: an idle
// region may keep one whole request of a small limit at hand without keeping as
// much of its rate.
type Share struct {
	Rate  int32
	Burst int32
}

// Min is the smaller of the two, part by part.
func (s Share) Min(t Share) Share {
	return Share{Rate: min(s.Rate, t.Rate), Burst: min(s.Burst, t.Burst)}
}

// Max is the larger of the two, part by part.
func (s Share) Max(t Share) Share {
	return Share{Rate: max(s.Rate, t.Rate), Burst: max(s.Burst, t.Burst)}
}

// Add is the sum, part by part.
func (s Share) Add(t Share) Share {
	return Share{Rate: s.Rate + t.Rate, Burst: s.Burst + t.Burst}
}

// Sub is the difference, part by part.
func (s Share) Sub(t Share) Share {
	return Share{Rate: s.Rate - t.Rate, Burst: s.Burst - t.Burst}
}

// Within reports whether neither part of s is above t's.
func (s Share) Within(t Share) bool { return s.Rate <= t.Rate && s.Burst <= t.Burst }

// Scale is part/Unit of amount, rounded down. amount and part must not be
// negative; the product is computed in 128 bits.
func Scale(amount int64, part int32) int64 {
	hi, lo := bits.Mul64(uint64(amount), uint64(part))
	return int64(hi<<44 | lo>>20)
}

// KeyID names one key: one rule and one client. Rule is the rule's number, Hash
// the keyed hash of the namespace and the client's attributes.
type KeyID struct {
	Rule uint32
	Hash [16]byte
}

// Compare orders keys by rule, then hash.
func (k KeyID) Compare(o KeyID) int {
	if k.Rule != o.Rule {
		if k.Rule < o.Rule {
			return -1
		}
		return 1
	}
	for i := range k.Hash {
		if k.Hash[i] != o.Hash[i] {
			if k.Hash[i] < o.Hash[i] {
				return -1
			}
			return 1
		}
	}
	return 0
}

// Gen orders all shares ever sent to a region: by the epoch of the leader that
// sent them, then its counter. The shares of different keys that one message brings have
// the same one. The zero value is before all.
type Gen struct {
	Epoch   uint64
	Counter uint64
}

// Before reports whether g is older than o.
func (g Gen) Before(o Gen) bool {
	return g.Epoch < o.Epoch || g.Epoch == o.Epoch && g.Counter < o.Counter
}

// The packed form keeps a generation below 2^53, the largest integer Lua counts
// exactly: 2^21 epochs of 2^32 messages each. A leader begins a new epoch when it has used
// half of the generations of its own; see Leader.EpochSpent.
const (
	counterBits = 32
	maxCounter  = 1<<counterBits - 1
	maxEpoch    = 1<<21 - 1
)

// Valid reports whether g is one that a leader may send: it can be packed.
func (g Gen) Valid() bool { return g.Epoch <= maxEpoch && g.Counter <= maxCounter }

// Pack is g as one integer in the same order, below 2^53. It panics if g is not Valid, which
// is checked where a message comes in.
func (g Gen) Pack() uint64 {
	if !g.Valid() {
		panic("budget: generation out of range")
	}
	return g.Epoch<<counterBits | g.Counter
}

// Split divides Unit by weight, exactly, by largest remainder; ties go to the
// earlier index. No weights: an empty slice. All weights zero: all equal.
func Split(weights []int64) []int32 {
	n := len(weights)
	if n == 0 {
		return nil
	}
	parts := apportion(Unit, weights)
	out := make([]int32, n)
	for i, p := range parts {
		out[i] = int32(p)
	}
	return out
}

// mulDiv is a*b/c rounded towards zero, with the product in 128 bits; b and c must
// be positive, and the result fit.
func mulDiv(a, b, c int64) int64 {
	negative := a < 0
	if negative {
		a = -a
	}
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))
	if negative {
		return -int64(q)
	}
	return int64(q)
}
