package charge

import (
	"testing"
	"unsafe"
)

// TestARequestOfOneLimitTakesOneKilobyte: Go's next size of memory has a quarter more, which the collector
// has to look at for each request that goes to the store.
func TestARequestOfOneLimitTakesOneKilobyte(t *testing.T) {
	if size := unsafe.Sizeof(singleCharge{}); size > 1024 {
		t.Errorf("a group of one limit takes %d bytes", size)
	}
}

// TestACallAllocatesItsGroupsTogether: each group is another one, and most need no memory of their own.
func TestACallAllocatesItsGroupsTogether(t *testing.T) {
	var s Scratch
	groups := map[*Transaction]bool{}
	for range 3 * groupsTogether {
		g := s.newGroup(7)
		if g.Cost != 7 || len(g.Charges) != 0 || cap(g.Charges) != 1 || groups[g] {
			t.Fatalf("a group of cost %d with %d of %d charges, another one: %v", g.Cost, len(g.Charges), cap(g.Charges), !groups[g])
		}
		groups[g] = true
	}
	if n := testing.AllocsPerRun(100, func() {
		for range groupsTogether {
			s.newGroup(1)
		}
	}); n > 1 {
		t.Errorf("%v allocations for %d groups", n, groupsTogether)
	}
}
