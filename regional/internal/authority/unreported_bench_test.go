package authority

import (
	"encoding/binary"
	"testing"

	"aliquot/budget"
)

// BenchmarkUnreported is what it takes to count the use of keys that are never asked for again.
func BenchmarkUnreported(b *testing.B) {
	var u unreported
	var k budget.KeyID
	for n := range b.N {
		binary.LittleEndian.PutUint64(k.Hash[:], uint64(n)*0x9e3779b97f4a7c15)
		u.admit(k, spentLimit, 1e6, budget.Instant(n))
	}
}
