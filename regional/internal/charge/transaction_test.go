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
