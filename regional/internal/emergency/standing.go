package emergency

import (
	"aliquot/internal/recall"
	"aliquot/regional/internal/charge"
)

// Moment is a time at which something was charged without the store. At is the earliest that the
// store's clock can have shown, in microseconds; 0: not known.
type Moment struct {
	At       int64
	contents string
	payments uint64
}

// Moment returns the present.
func (e *Limit) Moment() Moment {
	e.mu.Lock()
	defer e.mu.Unlock()
	at, _, known := e.clock.Bounds(e.now())
	if !known {
		at = 0
	}
	return Moment{At: at, contents: e.contents, payments: e.payments}
}

// Stands reports whether what was charged at a moment is charged in the store's present contents, or
// still owed to them. It is not if a debt may have been paid between that moment and a loss of the
// store's contents. same: the contents are those of the moment.
func (e *Limit) Stands(m Moment) (stands, same bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lostAt <= m.payments, e.contents == m.contents
}

// Hands records that something charged before is about to be told to the store. A later loss of the
// store's contents loses it.
func (e *Limit) Hands() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.payments++
}

// paid is carried for a call that may have paid the debt. The caller holds mu.
func (e *Limit) paid(a *charge.Charge) recall.Debt {
	debt := carried(a)
	if debt.Amount != 0 || debt.Held != nil {
		e.payments++
	}
	return debt
}

// carried returns the debt that a call carried, which has ended. Its end counts once, even if the next
// call of the charge is not made.
func carried(a *charge.Charge) (debt recall.Debt) {
	if a.Carried != nil {
		debt, a.Carried = *a.Carried, nil
	}
	return debt
}
