package audit

import (
	"time"

	"aliquot/budget"
)

const (
	// maxColdUse bounds how many statements about keys that the ledger does not have are remembered.
	maxColdUse = 1000
	// coldUseFor is for how long. A key that is asked for more than it holds is hot long before.
	coldUseFor = time.Minute
)

// coldUse is what regions told beside their counters of keys that the ledger did not have. It counts when
// the key is reported under the same limit within coldUseFor. The zero value is empty.
type coldUse struct {
	of    map[budget.KeyID][]toldUse
	count int // of all keys
}

// toldUse is one statement of a region.
type toldUse struct {
	consumption
	limit budget.KeyLimit
	at    budget.Instant
}

// add remembers a statement. If there are too many, it forgets all.
func (c *coldUse) add(id budget.KeyID, use toldUse) {
	if c.count >= maxColdUse || c.of == nil {
		c.of, c.count = map[budget.KeyID][]toldUse{}, 0
	}
	c.of[id] = append(c.of[id], use)
	c.count++
}

// take returns what counts of a key under a limit now, and forgets the key.
func (c *coldUse) take(id budget.KeyID, limit budget.KeyLimit, now budget.Instant) (out []consumption) {
	for _, u := range c.of[id] {
		if u.limit == limit && now.Sub(u.at) <= coldUseFor {
			out = append(out, u.consumption)
		}
		c.count--
	}
	delete(c.of, id)
	return out
}
