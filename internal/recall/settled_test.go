package recall

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

// settling sends a call that settles a charge of a counting limit: more was used than it. The call carries what the
// key owes.
func settling(t *Table, l limit.Limit, beyond int, now budget.Instant) (k Ticket, c Charge, d Debt) {
	c = charge(l, 1, beyond, now)
	d = t.Carry(&c, t.Call(), now)
	t.Sent(&k, &c, now)
	return k, c, d
}

// TestASettlementSaysWhatIsInUse: a daemon admits 40 of 100 by itself. Then a settlement of 10 more is the first call of
// the key, and the store says that 50 are in use. So the daemon admits 50 if its store fails again, and tells other
// contents of those 50.
func TestASettlementSaysWhatIsInUse(t *testing.T) {
	log := counting
	log.Algorithm = limit.SlidingLog
	for _, l := range []limit.Limit{counting, log} {
		table, now := New(10, 0), hour
		answered(table, l, 1, 100, now)
		c := charge(l, 1, 40, now)
		if !table.Decide([]Charge{c}, false, now, make([]limit.Outcome, 1)) {
			t.Fatal("40 of 100 are not admitted")
		}
		now += second
		k, c, d := settling(table, l, 10, now)
		if d.Amount != 40*limit.Token {
			t.Fatalf("%v: the call carries %d", l.Algorithm, d.Amount)
		}
		if look := charge(l, 1, 51, now); table.wouldAdmit(&look, now) {
			t.Errorf("%v: what the settlement takes is given out", l.Algorithm)
		}
		table.Adjusted(&k, &c, 50*limit.Token, 50*limit.Token, d, int64(now)/1000, now)
		if table.Owing() != 0 {
			t.Errorf("%v: something is still owed", l.Algorithm)
		}
		now += second
		table.HoldsUntil(now + second)
		table.Emptied(now)
		if _, used, known := memory(table, l, 1, now); !known || used != 50 {
			t.Errorf("%v: other contents are told of %d in use (%v)", l.Algorithm, used, known)
		}
		if n := burst(table, l, 1, now); n != 50 {
			t.Errorf("%v: %d admitted, want 50", l.Algorithm, n)
		}
	}
}

// TestASettlementBesideAnotherAnswer: an answer to another call comes while a settlement is under way. It may not count
// what the settlement charges and carries, so that counts beside it.
func TestASettlementBesideAnotherAnswer(t *testing.T) {
	table, now := New(10, 0), hour
	answered(table, counting, 1, 100, now)
	c := charge(counting, 1, 40, now)
	table.Decide([]Charge{c}, false, now, make([]limit.Outcome, 1))
	k, c, d := settling(table, counting, 10, now+second)
	answered(table, counting, 1, 99, now+second+1)
	table.Adjusted(&k, &c, 50*limit.Token, 50*limit.Token, d, int64(now+second)/1000, now+2*second)
	if n := burst(table, counting, 1, now+2*second); n != 49 {
		t.Errorf("%d admitted, want 99 less the 40 that are owed and the 10 of the settlement", n)
	}
}

// TestASettlementOfABucket: a bucket had 90 left half a minute ago, so it is full. A settlement of 80 beyond its reservation
// leaves now: 20 are left, whatever the store answers to an earlier call, until it answers the settlement.
func TestASettlementOfABucket(t *testing.T) {
	const ms = second / 1000
	for name, is := range map[string]struct {
		end  func(*Table, *Ticket, *Charge)
		left int
	}{
		"under way": {func(*Table, *Ticket, *Charge) {}, 20},
		"answered": {func(table *Table, k *Ticket, c *Charge) {
			table.Adjusted(k, c, 20*limit.Token, 0, Debt{}, int64(hour+3*ms)/1000, hour+4*ms)
		}, 20},
		"answered, with a debt": {func(table *Table, k *Ticket, c *Charge) {
			table.Adjusted(k, c, -20*limit.Token, 0, Debt{}, int64(hour+3*ms)/1000, hour+4*ms)
		}, 0},
		"without an answer": {func(table *Table, k *Ticket, c *Charge) { table.Lost(k, c, hour+second) }, 20},
		"not made":          {func(table *Table, k *Ticket, c *Charge) { table.NotSent(k, c) }, 100},
	} {
		for _, late := range []bool{false, true} { // the answer to the earlier call comes last
			table := New(10, 0)
			answered(table, bucket, 1, 90, hour-30*second)
			var k Ticket
			earlier := charge(bucket, 1, 0, hour)
			table.Sent(&k, &earlier, hour)
			answer := func() {
				table.Answered(&k, &earlier, true, limit.Outcome{Tokens: 100 * limit.Token, Bucket: earlier.Bucket}, Debt{}, int64(hour+ms)/1000, hour+5*ms)
			}
			settlement, c, _ := settling(table, bucket, 80, hour+2*ms)
			if !late {
				answer()
			}
			is.end(table, &settlement, &c)
			if late {
				answer()
			}
			if left := fits(table, bucket, hour+6*ms); left != is.left {
				t.Errorf("%s, the earlier answer late: %v: %d left, want %d", name, late, left, is.left)
			}
		}
	}
}

// TestASettlementOfAKeyThatIsNotKnown: the daemon has not seen a bucket's key for an hour when a settlement of all 100 of it
// leaves. They are not left, until the answer says 40.
func TestASettlementOfAKeyThatIsNotKnown(t *testing.T) {
	table := New(10, 0)
	k, c, d := settling(table, bucket, 100, hour)
	if n := burst(table, bucket, 1, hour); n != 0 {
		t.Errorf("%d admitted that the settlement takes", n)
	}
	table.Adjusted(&k, &c, 40*limit.Token, 0, d, int64(hour)/1000, hour)
	if n := burst(table, bucket, 1, hour); n != 40 {
		t.Errorf("%d admitted where the store has 40 left", n)
	}
}

// TestUseOfWindowsOfAnotherLength: a daemon admits all 100 of an hour by itself. Then its rule allows 50 a minute. What
// was admitted counts as of now, and is owed.
func TestUseOfWindowsOfAnotherLength(t *testing.T) {
	for _, a := range limit.Algorithms() {
		if !a.Counts() || a.Logs() {
			continue
		}
		long := limit.Limit{Algorithm: a, Capacity: 100 * limit.Token, Window: time.Hour}
		short := limit.Limit{Algorithm: a, Capacity: 50 * limit.Token, Window: time.Minute}
		table, now := New(10, 0), 12*hour+30*60*second
		if n := burst(table, long, 1, now); n != 100 {
			t.Fatalf("%v: %d of the first 100 admitted", a, n)
		}
		now += 20 * second
		if n := burst(table, short, 1, now); n != 0 {
			t.Errorf("%v: %d admitted in the minute in which 100 were", a, n)
		}
		c := charge(short, 1, 1, now)
		if d := table.Carry(&c, table.Call(), now); d.Amount != 100*limit.Token {
			t.Errorf("%v: a call carries %d", a, d.Amount)
		}
		if n := burst(table, short, 1, now+2*60*second); n != 50 {
			t.Errorf("%v: %d admitted two minutes later", a, n)
		}
	}
}
