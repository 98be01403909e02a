package coordinator

import (
	"sync"
	"time"

	"aliquot/budget"
)

// keyIndexCost sets for how long the sorted keys are used again: this many times the time that sorting
// took. Sorting 200,000 keys takes some 60 ms, in which nothing can be applied. So a caller that pages
// through all keys, and any number of scrapers, cost 5 % together. The keys of a small ledger are
// practically always fresh.
const keyIndexCost = 20

// keyIndex caches the sorted keys of the ledger. It may lack keys that have just become hot, and have
// keys that are no longer hot. The zero value is ready. It is safe for concurrent use.
type keyIndex struct {
	mu    sync.Mutex
	keys  []budget.KeyID
	until time.Time
}

// sorted returns the keys of the ledger in order. The caller holds the ledger for reading, passes the
// same ledger each time, and must not change the result.
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
