package coordinator

import (
	"sync"
	"time"

	"aliquot/budget"
)

// keyIndexCost is how many times as long as sorting took the sorted keys are used
// again. 200,000 keys take some 60 ms, in which nothing can be applied: so a caller
// that pages through them all, and any number of scrapers, cost 5 % together. A
// small ledger's keys are as good as fresh.
const keyIndexCost = 20

// keyIndex remembers the ledger's keys in order. It may lack keys that became hot
// in the last moment, and hold some that are so no more. The zero value is ready;
// it is safe for concurrent use.
type keyIndex struct {
	mu    sync.Mutex
	keys  []budget.KeyID
	until time.Time
}

// sorted is the keys of the ledger, which must be locked for reading and always be
// the same one. The answer must not be changed.
func (x *keyIndex) sorted(l *budget.Ledger) []budget.KeyID {
	x.mu.Lock()
	defer x.mu.Unlock()
	began := time.Now()
	if began.Before(x.until) {
		return x.keys
	}
	x.keys = l.Keys()
	done := time.Now()
	x.until = done.Add(keyIndexCost * done.Sub(began))
	return x.keys
}
