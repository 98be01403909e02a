package recall

import (
	"testing"
	"time"

	"aliquot/limit"
)

// TestLostCallsOneAfterTheOther: a limit of 1,000 that allows as many a second has two calls in 50 ms. One is lost, and
// its caller has gone; to the other one the store answers that 900 are left. So a caller is admitted from memory at any time.
func TestLostCallsOneAfterTheOther(t *testing.T) {
	for name, l := range perSecond {
		l.Capacity, l.Rate.Micro = 1000*limit.Token, 1000*int64(limit.Token)
		table, now := New(10, 0), hour
		out := limit.Outcome{Tokens: 900 * limit.Token, Bucket: limit.Bucket{Cap: l.Capacity, Rate: l.Rate}}
		for range 60 * 20 {
			now += second / 20
			var lost, k Ticket
			c := charge(l, 1, 1, now)
			table.Sent(&k, &c, now)
			table.Sent(&lost, &c, now)
			table.Answered(&k, &c, true, out, Debt{}, int64(now)/1000, now+second/1000)
			table.Lost(&lost, &c, now+second/2)
			if look := charge(l, 1, 860, now+second/1000); !table.wouldAdmit(&look, now+second/1000) {
				t.Fatalf("%s: fewer are left after %v than 900 less the lost calls of a second, in two windows", name, time.Duration(now-hour))
			}
		}
	}
}

// TestLostCallsOfALongOutage: as above, for a bucket that earns 100 a second, and the store answers no call at all. The
// bucket earns what the lost calls may have taken.
func TestLostCallsOfALongOutage(t *testing.T) {
	l := limit.Limit{Capacity: 1000 * limit.Token, Rate: limit.Rate{Micro: 100 * int64(limit.Token)}}
	table, now := New(10, 0), hour
	answered(table, l, 1, 1000, now)
	for range 600 * 20 {
		now += second / 20
		loses(table, l, 1, 1, now)
	}
	if left := fits(table, l, now); left < 970 {
		t.Errorf("%d left after 12,000 lost calls in ten minutes, which has earned five times as many", left)
	}
}

// TestSlotsOfLostCallsEnd: calls for four of five slots are lost and refused. From then on one call in ten seconds is lost,
// whose caller is given its slot from memory and gives it back. A slot lasts a minute, so then the four are free.
func TestSlotsOfLostCallsEnd(t *testing.T) {
	l, table, now := perSecond["slots"], New(10, 0), hour
	l.Window = time.Minute
	answered(table, l, 1, 5, now)
	loses(table, l, 1, 4, now)
	for name := range uint64(9) {
		now += 10 * second
		var k Ticket
		c := charge(l, 1, 1, now)
		c.Slot = name + 1
		table.Sent(&k, &c, now)
		table.Lost(&k, &c, now+second/2)
		c.Own = &k
		if !table.Decide([]Charge{c}, false, now, make([]limit.Outcome, 1)) || !table.Release(&c) {
			t.Fatal("the fifth slot is not given out")
		}
	}
	if left := fits(table, l, now); left != 5 {
		t.Errorf("%d of 5 left a minute and a half after four were lost", left)
	}
}

// TestManySlotsOfLostCallsEnd: for an hour a call for a slot is lost each second, and its caller has gone. A slot lasts a
// minute. The lost calls of the last minute count, and those of a quarter of a minute before at most.
func TestManySlotsOfLostCallsEnd(t *testing.T) {
	l, table, now := perSecond["slots"], New(10, 0), hour
	l.Window, l.Capacity = time.Minute, 100*limit.Token
	answered(table, l, 1, 100, now)
	for range 3600 {
		now += second
		loses(table, l, 1, 1, now)
		if left := fits(table, l, now); left > 100 || left < 100-75 || now > hour+60*second && left > 40 {
			t.Fatalf("%d of 100 left after %v", left, time.Duration(now-hour))
		}
	}
}

// TestALaterCallIsDecidedFirst: a bucket of five earns one a second. A call that the store may decide for two seconds is lost,
// and after it one for half a second. The first one may have taken all five at its deadline, so one is left a second later.
func TestALaterCallIsDecidedFirst(t *testing.T) {
	l, table := perSecond["bucket"], New(10, 0)
	answered(table, l, 1, 5, hour)
	loses(table, l, 1, 1, hour)
	var k Ticket
	c, now := charge(l, 1, 5, hour), hour+second/2
	table.Sent(&k, &c, now)
	table.Lost(&k, &c, now+2*second)
	loses(table, l, 1, 1, now+second/10)
	if left := fits(table, l, now+3*second); left != 1 {
		t.Errorf("%d left", left)
	}
}

// TestALongerSlotIsLost: a call for a slot that lasts a minute is lost beside one for a slot of five seconds, as its rule
// changes. It counts for a minute.
func TestALongerSlotIsLost(t *testing.T) {
	l, table := perSecond["slots"], New(10, 0)
	longer := l
	longer.Window = time.Minute
	answered(table, l, 1, 5, hour)
	loses(table, l, 1, 1, hour)
	loses(table, longer, 1, 1, hour)
	loses(table, l, 1, 1, hour)
	if left := fits(table, l, hour+59*second); left > 4 {
		t.Errorf("%d of 5 left", left)
	}
}
