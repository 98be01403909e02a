package charge

import "aliquot/budget"

// Seen counts a check that goes to the store, as Decision.Plan does.
func (t *Table) Seen(a *Charge, r *Request, shadow bool, now budget.Instant) *Entry {
	return t.countCheck(a, r, shadow, now)
}
