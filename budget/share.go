// Package budget divides one limit among regions. It holds the two state machines of the budget
// protocol, the leader's and a region's, and the ledger between them. The code is pure: no I/O, no
// clock, no goroutine, no float. docs/reference/protocol.md explains the protocol; the tests in this package
// and in internal/sim check it. docs/reference/glossary.md explains the terms.
package budget

import (
	"encoding/binary"
	"math/bits"
)

// Unit is the whole of a limit. Shares are fractions in units of 2^-20.
const Unit = 1 << 20

// Share is a fraction of one limit, separately of its rate and of its burst, each from 0 to Unit.
// Each part obeys every rule of the protocol by itself. So an idle region can keep one whole
// request of a small limit at hand without keeping as much of its rate.
type Share struct {
	Rate  int32
	Burst int32
}

// Min returns the smaller of s and t in each part.
func (s Share) Min(t Share) Share {
	return Share{Rate: min(s.Rate, t.Rate), Burst: min(s.Burst, t.Burst)}
}

// Max returns the larger of s and t in each part.
func (s Share) Max(t Share) Share {
	return Share{Rate: max(s.Rate, t.Rate), Burst: max(s.Burst, t.Burst)}
}

// Add returns the sum of s and t, part by part.
func (s Share) Add(t Share) Share {
	return Share{Rate: s.Rate + t.Rate, Burst: s.Burst + t.Burst}
}

// Sub returns s less t, part by part.
func (s Share) Sub(t Share) Share {
	return Share{Rate: s.Rate - t.Rate, Burst: s.Burst - t.Burst}
}

// Within reports whether neither part of s is above that of t.
func (s Share) Within(t Share) bool { return s.Rate <= t.Rate && s.Burst <= t.Burst }

// Scale returns part/Unit of amount, rounded down. amount and part must not be negative. The
// product is computed in 128 bits.
func Scale(amount int64, part int32) int64 {
	hi, lo := bits.Mul64(uint64(amount), uint64(part))
	return int64(hi<<44 | lo>>20)
}

// KeyID identifies one key: one rule and one client. Rule is the rule's number. Hash is the keyed
// hash of the namespace and the client's attributes.
type KeyID struct {
	Rule uint32
	Hash [16]byte
}

// Spread returns a number for tables of keys. Its first bits differ also for keys that differ in few bits (Knuth, The Art of
// Computer Programming, volume 3, section 6.4). It depends on a secret of the cluster, as the key does, so nobody can choose
// keys that lie close together.
func (k *KeyID) Spread() uint64 {
	h := binary.LittleEndian.Uint64(k.Hash[:8]) ^ bits.RotateLeft64(binary.LittleEndian.Uint64(k.Hash[8:]), 32) ^ uint64(k.Rule)
	return h * 0x9e3779b97f4a7c15 // the golden ratio
}

// Compare orders keys by rule, then by hash.
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

// Gen is a generation. It orders all shares ever sent to a region: by the epoch of the leader that
// sent them, then by its counter. Shares of different keys in one message have the same generation.
// The zero value comes before all others.
type Gen struct {
	Epoch   uint64
	Counter uint64
}

// Before reports whether g is older than o.
func (g Gen) Before(o Gen) bool {
	return g.Epoch < o.Epoch || g.Epoch == o.Epoch && g.Counter < o.Counter
}

// The packed form keeps a generation below 2^53, the largest integer that Lua counts exactly: 2^21
// epochs of 2^32 messages each. A leader that has used half of its generations is replaced, with a
// new epoch; see Leader.EpochSpent.
const (
	counterBits = 32
	maxCounter  = 1<<counterBits - 1
	maxEpoch    = 1<<21 - 1
)

// Valid reports whether a leader may send g, because it can be packed.
func (g Gen) Valid() bool { return g.Epoch <= maxEpoch && g.Counter <= maxCounter }

// Pack returns g as one integer below 2^53, in the same order. It panics if g is not Valid, which
// is checked where a message comes in.
func (g Gen) Pack() uint64 {
	if !g.Valid() {
		panic("budget: generation out of range")
	}
	return g.Epoch<<counterBits | g.Counter
}

// Split divides Unit by weight, exactly, by largest remainder. Ties go to the earlier index. No
// weights give an empty slice. If all weights are zero, the parts are equal.
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

// mulDiv returns a*b/c rounded towards zero, with the product in 128 bits. b and c must be
// positive, and the result must fit.
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
