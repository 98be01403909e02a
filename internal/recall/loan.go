package recall

import (
	"aliquot/budget"
	"aliquot/limit"
)

// A loan on its way is not charged: what it brings is not known yet, and requests need not wait for it. So
// what is admitted here of the key in the meantime comes out of the loan when that arrives. The store took
// the loan off the record before, so as much is no longer owed.
//
// Worked number: of 100 a call borrows 29, and 9 are admitted here before its answer, by which 71 are left.
// So 20 of the loan may be spent, nothing is owed, and 9 + 20 + 71 = 100.

// meanwhile is what was admitted here of a bucket while a call is in flight that wants to borrow of it.
type meanwhile struct {
	admitted limit.Tokens
	// owed is the latest part of it, which no call carries. The store can not have taken that off the record.
	owed limit.Tokens
}

// asksToBorrow begins the time in which a call is in flight, if it wants to borrow.
func (t *Table) asksToBorrow(k *Ticket, key budget.KeyID) {
	if k.borrows && t.lending[key] == nil {
		t.lending[key] = &meanwhile{}
	}
}

// asked ends that time, and returns what was admitted in it; nil: that is not known.
func (t *Table) asked(k *Ticket, key budget.KeyID) *meanwhile {
	if !k.borrows {
		return nil
	}
	k.borrows = false
	m := t.lending[key]
	delete(t.lending, key)
	return m
}

// admitted subtracts from a bucket what is admitted here, as of the instant of what is known of it.
func (t *Table) admitted(key budget.KeyID, cost limit.Tokens) {
	t.credit(key, -cost)
	if m := t.lending[key]; m != nil {
		m.admitted, m.owed = max(0, m.admitted+cost), max(0, m.owed+cost)
	}
}

// carriedBeside records that another call carries what a key owes.
func (t *Table) carriedBeside(key budget.KeyID) {
	if m := t.lending[key]; m != nil {
		m.owed = 0
	}
}

// Borrowed follows Answered for a call with the given view of the key's chunk. It records what the daemon has
// borrowed of the key's record, and when that loan ends at the latest. The daemon spends the loan besides
// what the table knows, so until its end the record fills up to that much less. An answer that was overtaken
// by a later one lowers nothing. Borrowed reduces out.Lent to what may be spent, and returns the rest, which the
// store has lent as well.
func (t *Table) Borrowed(k *Ticket, c *Charge, chunk *limit.ChunkView, out *limit.Outcome, stamp int64, now budget.Instant) (spent limit.Tokens) {
	if lent, most, said := chunk.Holds(out); said {
		t.borrowed(c.Key, lent, now.Add(most), stamp)
	}
	m := t.asked(k, c.Key)
	if out.Lent == 0 {
		return 0
	}
	if m == nil || k.voided != t.voided {
		spent, out.Lent = out.Lent, 0
		return spent
	}
	spent = min(out.Lent, m.admitted)
	out.Lent -= spent
	t.paidByLoan(c.Key, min(spent, m.owed))
	return spent
}

// borrowed is Borrowed without what was admitted meanwhile.
func (t *Table) borrowed(key budget.KeyID, lent limit.Tokens, until budget.Instant, stamp int64) {
	e, known := t.keys.get(key)
	if !known {
		return
	}
	if stamp < e.stamp {
		lent, until = max(lent, e.lent), max(until, e.lentUntil)
	}
	e.lent, e.lentUntil = lent, until
	t.keys.put(key, e)
}

// paidByLoan subtracts from a debt what a loan has paid of it. Of what was admitted the store has taken as
// much, as if a call had carried it. A key whose share changes counts as empty until it is known what it
// holds, debts or not.
func (t *Table) paidByLoan(key budget.KeyID, paid limit.Tokens) {
	d := t.debt[key]
	if d == nil || paid == 0 {
		return
	}
	paid = min(paid, d.total-d.paid)
	d.total, d.mark = d.total-paid, t.nextMark()
	if e, _ := t.keys.get(key); e.told {
		t.credit(key, paid)
	}
	t.settle(key, d)
}
