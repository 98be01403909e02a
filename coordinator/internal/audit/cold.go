package audit

import (
	"time"

	"aliquot/budget"
)

const (
	// maxColdUse bounds the reports that are remembered about keys that the ledger does not have.
	maxColdUse = 1000
	// coldUseKept is how long they are remembered. A key with more demand than its floor is hot long
	// before that.
	coldUseKept = time.Minute
)

// coldUse is the use that regions reported, beside their counters, of keys that the ledger did not have.
// It counts once the key is reported under the same limit within coldUseKept. The zero value is empty.
type coldUse struct {
	byKey map[budget.KeyID][]coldReport
	count int // of all keys
}

// coldReport is what a region reported at one time.
type coldReport struct {
	consumption
	limit budget.KeyLimit
	at    budget.Instant
}

// add remembers a report. If there are too many, it forgets all earlier ones.
func (c *coldUse) add(id budget.KeyID, use coldReport) {
	if c.count >= maxColdUse || c.byKey == nil {
		c.byKey, c.count = map[budget.KeyID][]coldReport{}, 0
	}
	c.byKey[id] = append(c.byKey[id], use)
	c.count++
}

// take returns what counts of a key under a limit now, and forgets the key.
func (c *coldUse) take(id budget.KeyID, limit budget.KeyLimit, now budget.Instant) (out []consumption) {
	for _, u := range c.byKey[id] {
		if u.limit == limit && now.Sub(u.at) <= coldUseKept {
			out = append(out, u.consumption)
		}
		c.count--
	}
	delete(c.byKey, id)
	return out
}
