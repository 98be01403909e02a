package recall

import (
	"testing"

	"aliquot/budget"
	"aliquot/limit"
)

// TestALostOverrun: a bucket of five that earns one a second has one left. A settlement charges six more than was reserved,
// which is used already: the bucket owes five then. The call is lost, or under way still, as the store loses its contents
// or the daemon restarts. Its bucket owes as much, and one is left after six seconds.
func TestALostOverrun(t *testing.T) {
	l := perSecond["bucket"]
	emptied := func(table *Table, now budget.Instant) *Table {
		table.HoldsUntil(now + second)
		table.Emptied(now)
		return table
	}
	restarted := func(contents string) func(*Table, budget.Instant) *Table {
		return func(table *Table, now budget.Instant) *Table {
			table.HoldsUntil(now + second)
			r := NewReturn(table.Snapshot(now), "before", true, now)
			return r.Resume(New(10, now), contents, now)
		}
	}
	for what, then := range map[string]func(*Table, budget.Instant) *Table{
		"nothing else": func(table *Table, _ budget.Instant) *Table { return table }, "emptied": emptied,
		"restarted": restarted("before"), "restarted and emptied": restarted("after"),
		"restarted, later emptied": func(table *Table, now budget.Instant) *Table { return emptied(restarted("before")(table, now), now) },
	} {
		for _, lost := range []bool{false, true} {
			for _, looked := range []bool{false, true} {
				table, now := New(10, 0), hour+second/2
				answered(table, l, 1, 1, hour)
				var k Ticket
				c := charge(l, 1, 6, hour)
				c.Overruns = true
				if table.Sent(&k, &c, hour); lost {
					table.Lost(&k, &c, now)
				} else if what == "nothing else" {
					continue
				}
				if now++; looked {
					fits(table, l, now)
				}
				table = then(table, now)
				if m := table.Memory(&c, now); m != nil && m.Tokens >= -4*limit.Token {
					t.Errorf("%s, lost: %t, looked at: %t: new contents are told that %d are left", what, lost, looked, m.Tokens)
				}
				early, late := fits(table, l, hour+5*second), fits(table, l, hour+9*second)
				if early != 0 || late < 1 || late > 4 {
					t.Errorf("%s, lost: %t, looked at: %t: %d left in five seconds and %d in nine", what, lost, looked, early, late)
				}
			}
		}
	}
}

// TestLostOverrunsOweNoMoreThanALimit: two calls for three, or for fifty, more than was reserved are lost where one is left. A
// bucket of five owes five then. So it is as well if the second call is under way as the store loses its contents.
func TestLostOverrunsOweNoMoreThanALimit(t *testing.T) {
	l := perSecond["bucket"]
	for _, cost := range []int{3, 50} {
		for _, emptied := range []bool{false, true} {
			table, until := New(10, 0), hour+second/2
			answered(table, l, 1, 1, hour)
			c := charge(l, 1, cost, hour)
			c.Overruns = true
			var first, other Ticket
			table.Sent(&first, &c, hour)
			table.Lost(&first, &c, until)
			if emptied {
				fits(table, l, until+1)
				table.Sent(&other, &c, until+1)
				table.HoldsUntil(until + second)
				table.Emptied(until + 1)
			} else {
				table.Sent(&other, &c, hour)
				table.Lost(&other, &c, until)
			}
			if early, late := fits(table, l, until+5*second), fits(table, l, until+6*second+2); early != 0 || late != 1 {
				t.Errorf("twice %d, emptied: %t: %d left after five seconds and %d after six, want 0 and 1", cost, emptied, early, late)
			}
		}
	}
}

// TestAnOverrunThatIsNotMade: its cost counts while it is under way. Then a call that is lost takes no more than there is.
func TestAnOverrunThatIsNotMade(t *testing.T) {
	l, table := perSecond["bucket"], New(10, 0)
	answered(table, l, 1, 1, hour)
	c := charge(l, 1, 6, hour)
	c.Overruns = true
	var k Ticket
	table.Sent(&k, &c, hour)
	table.NotSent(&k, &c)
	loses(table, l, 1, 5, hour)
	table.HoldsUntil(hour + second)
	table.Emptied(hour)
	if left := fits(table, l, hour+second); left != 1 {
		t.Errorf("%d left, want what a second earns", left)
	}
}
