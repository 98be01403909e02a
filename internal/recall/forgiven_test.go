package recall

import (
	"testing"

	"aliquot/limit"
)

// TestALossIsForgiven: a key of which nothing is known after a loss starts afresh if its rule says so: a
// bucket full, a window unused. Known use stays, what a key was forgiven once is not forgiven again, and
// nothing is forgiven where nothing can be missing any more.
func TestALossIsForgiven(t *testing.T) {
	const birth = 5_000_000_000
	for _, l := range []limit.Limit{bucket, counting} {
		for _, is := range []struct {
			name     string
			table    func() *Table
			change   func(*Charge)
			forgiven bool
		}{
			{name: "a new daemon", forgiven: true},
			{name: "a daemon that does not hold the session", forgiven: true, table: func() *Table {
				table := New(10, hour-3600*second)
				answered(table, l, 1, 40, hour-second)
				table.Emptied(hour)
				return table
			}},
			{name: "beside another daemon", forgiven: true, table: func() *Table { return emptied(l, 40, hour) }, change: func(c *Charge) { c.Foreign = true }},
			{name: "a rule that denies", change: func(c *Charge) { c.Forgives = false }},
			{name: "contents whose age is not known", change: func(c *Charge) { c.Birth = 0 }},
			{name: "contents of another clock", change: func(c *Charge) { c.OldClock = true }},
			{name: "long after the loss", change: func(c *Charge) {
				c.StoreNow = birth + 2*max(c.Full, 2*c.Limit.Tail()).Microseconds()
			}},
			{name: "after the store has answered", table: func() *Table {
				table := New(10, 0)
				c, k := charge(l, 1, 1, hour), Ticket{}
				table.Sent(&k, &c, hour)
				table.Answered(&k, &c, true, limit.Outcome{Bucket: limit.Bucket{Cap: l.Capacity}}, Debt{}, birth+1, hour)
				return table
			}},
		} {
			table := New(10, hour)
			if is.table != nil {
				table = is.table()
			}
			c := charge(l, 1, 0, hour)
			c.Forgives, c.Birth, c.StoreNow, c.StoreLatest = true, birth, birth+1_000_000, birth+1_000_000
			if is.change != nil {
				is.change(&c)
			}
			m := table.Memory(&c, hour)
			if is.forgiven != (m != nil) || m != nil && (m.Used != 0 || m.Tokens < l.Capacity) {
				t.Errorf("%v, %s: %+v, want forgiven: %v", l.Algorithm, is.name, m, is.forgiven)
			}
		}
	}
	table := emptied(counting, 40, hour)
	c := charge(counting, 1, 0, hour)
	c.Forgives, c.Birth = true, birth
	if m := table.Memory(&c, hour); m == nil || m.Used != 60*limit.Token {
		t.Errorf("%+v, want 60 in use, which is known", m)
	}
}
