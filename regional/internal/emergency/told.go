package emergency

import (
	"aliquot/budget"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/rules"
)

// memory returns what to tell the store of an ask's key, in case it has lost the record with other
// contents; nil: nothing. The caller holds mu.
func (e *Limit) memory(a *charge.Charge, now budget.Instant) *limit.Memory {
	forgives := a.Forgives || a.Rule != nil && a.Rule.Forgives
	if !forgives && !e.table.Remembers() {
		return nil
	}
	c := e.charge(a, now)
	c.Forgives, c.Birth = forgives, e.born
	c.Full, c.Extra = a.TimeToFull(), a.Right.Hot && a.Enforcement == rules.Elastic
	c.Foreign = e.isForeign(a, now)
	return e.table.Memory(&c, now)
}

// tellHeld sets what to tell the store of an ask's key whose limit has changed, in case it has no record of it. The caller
// holds mu.
func (e *Limit) tellHeld(a *charge.Charge, now budget.Instant) {
	if a.Held = nil; a.Changed == nil {
		return
	}
	c := e.charge(a, now)
	c.Foreign = e.isForeign(a, now)
	if held, known := e.table.Held(&c, now); known {
		a.Held = &charge.Held{Amount: held, At: now}
	}
}

// isForeign reports whether another daemon may spend of an ask's key by the store. The caller holds mu.
func (e *Limit) isForeign(a *charge.Charge, now budget.Instant) bool {
	return e.left || !e.isAlone(now) || !a.Independent() && a.Right.Blind && a.Right.Phase != budget.CutOff
}
