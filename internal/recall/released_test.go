package recall

import (
	"slices"
	"testing"

	"aliquot/budget"
	"aliquot/limit"
)

// TestSlotOfACallThatIsGivenBack: a caller was given the slot of its call from memory, and the call ends without an
// admission, before that or after it. A store of several servers may release the slot some time later. So each call until
// then enters it again, unless its holder has given it back, and none after that. If the call is admitted, the store has it.
func TestSlotOfACallThatIsGivenBack(t *testing.T) {
	lost := func(t *Table, k *Ticket, c *Charge, now budget.Instant) { t.Lost(k, c, now+second/2) }
	notSent := func(t *Table, k *Ticket, c *Charge, _ budget.Instant) { t.NotSent(k, c) }
	answered := func(allowed bool) func(*Table, *Ticket, *Charge, budget.Instant) {
		return func(t *Table, k *Ticket, c *Charge, now budget.Instant) {
			t.Answered(k, c, allowed, slotsOutcome(1), Debt{}, int64(now)/1000, now)
		}
	}
	other := func(end func(*Table, *Ticket, *Charge, budget.Instant)) func(*Table, *Ticket, *Charge, budget.Instant) {
		return func(t *Table, k *Ticket, c *Charge, now budget.Instant) {
			t.HoldsUntil(now + second)
			t.Emptied(now)
			end(t, k, c, now)
		}
	}
	nothing := func(*Table, *Ticket, *Charge, budget.Instant) {}
	for what, is := range map[string]struct {
		before, after func(*Table, *Ticket, *Charge, budget.Instant)
		entered       bool
	}{
		"denied":                     {nothing, answered(false), false},
		"lost":                       {nothing, lost, false},
		"refused by a node":          {nothing, notSent, false},
		"admitted":                   {nothing, answered(true), true},
		"lost before":                {lost, nothing, false},
		"refused by a node before":   {notSent, nothing, false},
		"denied, other contents":     {nothing, other(answered(false)), false},
		"admitted by other contents": {nothing, other(answered(true)), false},
		"lost, other contents":       {nothing, other(lost), false},
		"refused, other contents":    {nothing, other(notSent), false},
	} {
		for _, released := range []bool{false, true} {
			table, now := slotsTable()
			storeGives(table, 1, 2, now)
			var k Ticket
			c := slotCharge(7, now)
			c.Spread = true
			table.Sent(&k, &c, now)
			is.before(table, &k, &c, now)
			own := c
			own.Own = &k
			if !table.Decide([]Charge{own}, false, now, make([]limit.Outcome, 1)) {
				t.Fatalf("%s: its caller has no slot", what)
			}
			_, d := carried(table, now)
			table.Paid(keyOf(1), d, true)
			if released {
				table.Release(&c)
			}
			is.after(table, &k, &c, now)
			for _, at := range []budget.Instant{now, now.Add(LateAtMost)} {
				names, d := carried(table, at)
				if slices.Contains(names, 7) == (released || is.entered) {
					t.Errorf("%s, given back %v: carried are %v", what, released, names)
				}
				table.Paid(keyOf(1), d, true)
			}
			later := now.Add(LateAtMost) + 1
			_, d = carried(table, later)
			table.Paid(keyOf(1), d, true)
			if names, _ := carried(table, later); len(names) > 0 || table.Owing() > 0 {
				t.Errorf("%s, given back %v: carried once more after it was entered: %v; %d keys owe", what, released, names, table.Owing())
			}
		}
	}
}
