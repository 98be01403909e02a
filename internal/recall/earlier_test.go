package recall

import (
	"testing"

	"aliquot/budget"
	"aliquot/limit"
)

// TestAnAnswerOfEarlierContentsLeavesTheDebt: the caller of a call was admitted from memory, and the store lost its
// contents, with what the call took of them. Its answer comes later, and takes nothing off the debt.
func TestAnAnswerOfEarlierContentsLeavesTheDebt(t *testing.T) {
	log := counting
	log.Algorithm = limit.SlidingLog
	for name, lose := range map[string]func(*Table){
		"with the session": func(table *Table) { table.HoldsUntil(hour + second); table.Emptied(hour) },
		"without":          func(table *Table) { table.Void(hour) },
	} {
		for _, l := range []limit.Limit{bucket, counting, log} {
			table := New(10, 0)
			answered(table, l, 1, 40, hour)
			var call Ticket
			c := charge(l, 1, 7, hour)
			table.Sent(&call, &c, hour)
			c.Own = &call
			if !table.Decide([]Charge{c}, false, hour, make([]limit.Outcome, 1)) {
				t.Fatalf("a %v, %s: 7 of 40 are not admitted", l.Algorithm, name)
			}
			lose(table)
			before, owed := leftAndOwed(table, l, hour)
			table.Answered(&call, &c, true, limit.Outcome{Tokens: 33 * limit.Token, Bucket: c.Bucket}, Debt{}, int64(hour)/1000, hour)
			if after, still := leftAndOwed(table, l, hour); after != before || still != owed || still != 7 {
				t.Errorf("a %v, %s: %d are left of %d, and %d are owed of %d", l.Algorithm, name, after, before, still, owed)
			}
		}
	}
}

// TestADebtPaidFromEarlierContentsIsOwed: a call that is no check, such as the change of a share, took a debt from
// contents that are lost.
func TestADebtPaidFromEarlierContentsIsOwed(t *testing.T) {
	concurrent := counting
	concurrent.Algorithm = limit.Concurrency
	for _, l := range []limit.Limit{bucket, counting, concurrent} {
		table := New(10, 0)
		answered(table, l, 1, 40, hour)
		c := charge(l, 1, 7, hour)
		c.Slot = 1
		if !table.Decide([]Charge{c}, false, hour, make([]limit.Outcome, 1)) {
			t.Fatalf("a %v: 7 of 40 are not admitted", l.Algorithm)
		}
		carried := table.Carry(&c, table.Call(), hour)
		table.HoldsUntil(hour + second)
		table.Emptied(hour)
		table.Paid(c.Key, carried, true)
		if owed := table.Owed(c.Key, hour) / limit.Token; owed != 7 {
			t.Errorf("a %v: %d are owed of 7", l.Algorithm, owed)
		}
	}
}

// leftAndOwed is what a table would admit of key 1, and what it owes.
func leftAndOwed(table *Table, l limit.Limit, now budget.Instant) (tokens, owed int64) {
	c := charge(l, 1, 0, now)
	return int64(table.look(&c, now).Tokens / limit.Token), int64(table.Owed(keyOf(1), now) / limit.Token)
}
