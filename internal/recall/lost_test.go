package recall

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

// perSecond are limits of five that allow one a second.
var perSecond = map[string]limit.Limit{
	"bucket":  {Capacity: 5 * limit.Token, Rate: limit.Rate{Micro: int64(limit.Token)}},
	"window":  {Algorithm: limit.FixedWindow, Capacity: 5 * limit.Token, Window: 5 * time.Second},
	"counter": {Algorithm: limit.SlidingCounter, Capacity: 5 * limit.Token, Window: 5 * time.Second},
	"log":     {Algorithm: limit.SlidingLog, Capacity: 5 * limit.Token, Window: 5 * time.Second},
	"slots":   {Algorithm: limit.Concurrency, Capacity: 5 * limit.Token, Window: 5 * time.Second},
}

// loses sends calls of a cost at once, whose callers are refused and which the store may decide until half a second later.
func loses(t *Table, l limit.Limit, calls, cost int, now budget.Instant) {
	for range calls {
		var k Ticket
		c := charge(l, 1, cost, now)
		t.Sent(&k, &c, now)
		t.Lost(&k, &c, now+second/2)
	}
}

// TestLostCallsLastNoOutage: three calls for two of five are in flight when the store stops, and are refused because each
// may find what the others have left. Then a client asks for one every ten seconds, a tenth of its limit, for an hour.
func TestLostCallsLastNoOutage(t *testing.T) {
	for name, l := range perSecond {
		table, now, out := New(10, 0), hour, make([]limit.Outcome, 1)
		answered(table, l, 1, 5, now)
		loses(table, l, 3, 2, now)
		if look := charge(l, 1, 1, now+second/2); table.wouldAdmit(&look, now+second/2) {
			t.Errorf("%s: one is left beside six that the store may still take", name)
		}
		admitted := 0
		for slot := range uint64(360) {
			now += 10 * second
			c := charge(l, 1, 1, now)
			if l.Algorithm == limit.Concurrency {
				c.Slot = slot + 1
			}
			if table.Decide([]Charge{c}, false, now, out) {
				admitted++
			}
		}
		if admitted != 360 {
			t.Errorf("%s: %d of 360 admitted", name, admitted)
		}
	}
}

// TestEachCallOfAnOutageIsLost: as above, but each request of the client goes to the store first, and that call is lost.
func TestEachCallOfAnOutageIsLost(t *testing.T) {
	for name, l := range perSecond {
		table, now, admitted := New(10, 0), hour, 0
		answered(table, l, 1, 5, now)
		loses(table, l, 3, 2, now)
		for slot := range uint64(360) {
			now += 10 * second
			var k Ticket
			c := charge(l, 1, 1, now)
			if l.Algorithm == limit.Concurrency {
				c.Slot = slot + 1
			}
			table.Sent(&k, &c, now)
			table.Lost(&k, &c, now+second/2)
			if c.Own = &k; table.Decide([]Charge{c}, false, now, make([]limit.Outcome, 1)) {
				admitted++
			}
		}
		if admitted != 360 {
			t.Errorf("%s: %d of 360 admitted", name, admitted)
		}
	}
}

// TestLostCallsCountAsTaken: calls for two of five are lost. From their deadline on, half a second later, two are not left:
// a bucket earns them again, a window has them in use until its end, and so has a slot.
func TestLostCallsCountAsTaken(t *testing.T) {
	for _, is := range []struct {
		limit string
		after budget.Instant
		left  int
	}{
		{"bucket", second / 2, 3}, {"bucket", second + second/2, 4}, {"bucket", 2*second + second/2, 5},
		{"window", second, 3}, {"window", 4 * second, 3}, {"window", 5 * second, 5},
		{"counter", second, 3}, {"counter", 4 * second, 3}, {"counter", 10 * second, 5},
		{"log", second, 3}, {"log", 5*second + second/3, 3}, {"log", 5*second + 2*second/3, 5},
		{"slots", second, 3}, {"slots", 5*second + second/3, 3}, {"slots", 5*second + 2*second/3, 5},
	} {
		for _, looked := range []bool{false, true} {
			table, l := New(10, 0), perSecond[is.limit]
			answered(table, l, 1, 5, hour)
			loses(table, l, 1, 2, hour)
			if look := charge(l, 1, 1, hour+second); looked && is.after > second {
				table.wouldAdmit(&look, hour+second)
			}
			if left := fits(table, l, hour+is.after); left != is.left {
				t.Errorf("%s, %v later (looked at before: %v): %d left, want %d", is.limit, time.Duration(is.after), looked, left, is.left)
			}
		}
	}
}

// fits is the largest cost that would be admitted.
func fits(t *Table, l limit.Limit, now budget.Instant) (cost int) {
	for c := charge(l, 1, 1, now); t.wouldAdmit(&c, now); c.Cost += limit.Token {
		cost++
	}
	return cost
}

// TestAnAnswerFromBeforeALostCall: 100 are left when a call for 60 is lost. The answer to an earlier call comes after its
// deadline, and says 99: that may have been before the store took the 60.
func TestAnAnswerFromBeforeALostCall(t *testing.T) {
	for _, l := range []limit.Limit{{Capacity: 100 * limit.Token}, counting} {
		table, now := New(10, 0), hour
		answered(table, l, 1, 100, now-second)
		var k Ticket
		c := charge(l, 1, 1, now)
		table.Sent(&k, &c, now)
		loses(table, l, 1, 60, now)
		now += second
		if left := fits(table, l, now); left != 39 {
			t.Errorf("%v: %d left beside 60 and 1 under way", l.Algorithm, left)
		}
		table.Answered(&k, &c, true, limit.Outcome{Tokens: 99 * limit.Token, Bucket: c.Bucket}, Debt{}, int64(hour)/1000, now)
		if left := fits(table, l, now); left != 39 {
			t.Errorf("%v: %d left after the answer, want 99 less the 60", l.Algorithm, left)
		}
		answered(table, l, 1, 90, now)
		if left := fits(table, l, now); left != 90 {
			t.Errorf("%v: %d left where the store has answered 90 since", l.Algorithm, left)
		}
	}
}

// TestContentsAreToldOfLostCalls: calls for six of five are lost, and so are the store's contents an hour later. Its new
// contents are told that the bucket is full.
func TestContentsAreToldOfLostCalls(t *testing.T) {
	l := perSecond["bucket"]
	for _, looked := range []bool{false, true} {
		table, now := New(10, 0), hour
		answered(table, l, 1, 5, now)
		loses(table, l, 3, 2, now)
		now += hour
		if look := charge(l, 1, 1, now); looked && !table.wouldAdmit(&look, now) {
			t.Error("not one is left an hour later")
		}
		table.HoldsUntil(now + second)
		table.Emptied(now)
		c := charge(l, 1, 1, now)
		if m := table.Memory(&c, now); m == nil || m.Tokens != l.Capacity {
			t.Errorf("looked at before: %v: the store is told %+v, want a full bucket", looked, m)
		}
	}
}

// TestAKeyWithOldDebtsIsDropped: the table is full of keys of an outage, which owe something and have lost calls. None of
// that matters any more when their buckets are full again, so a new client finds room.
func TestAKeyWithOldDebtsIsDropped(t *testing.T) {
	table, out := New(1, 0), make([]limit.Outcome, 1)
	answered(table, bucket, 1, 100, hour)
	loses(table, bucket, 1, 2, hour)
	if c := charge(bucket, 1, 1, hour); !table.Decide([]Charge{c}, false, hour, out) {
		t.Fatal("1 of 98 is not admitted")
	}
	c := charge(bucket, 2, 1, hour+59*second)
	if table.Decide([]Charge{c}, false, hour+59*second, out) {
		t.Error("there is room before the first client's debt is over")
	}
	c = charge(bucket, 2, 1, hour+61*second)
	if !table.Decide([]Charge{c}, false, hour+61*second, out) || table.Owing() != 1 {
		t.Errorf("a minute later a new client is refused, or the first one still owes: %d keys do", table.Owing())
	}
}

// TestLostCallsCountOnceAfterAFlush: a call for 40 of 100 an hour is lost, the table looks at it, and half an hour later the
// store's contents are lost, with a restart before that or without one. 60 are left, and all 100 once the 40 have ended. The
// next call tells the new contents of the 40.
func TestLostCallsCountOnceAfterAFlush(t *testing.T) {
	for name, ends := range map[string]budget.Instant{"window": hour, "counter": 2 * hour, "log": hour + second} {
		for _, restart := range []bool{false, true} {
			table, l := New(10, 0), perSecond[name]
			l.Capacity, l.Window = 100*limit.Token, time.Duration(hour)
			answered(table, l, 1, 100, hour)
			loses(table, l, 1, 40, hour)
			fits(table, l, hour+second)
			now := hour + hour/2
			if table.HoldsUntil(now + second); restart {
				table = Restore(table.Snapshot(now), 10, now, true)
				table.HoldsUntil(now + second)
			}
			table.Emptied(now)
			c := charge(l, 1, 1, now)
			c.Full = time.Duration(2 * hour)
			left, owed, later := fits(table, l, now), table.Carry(&c, table.Call(), now).Amount, fits(table, l, hour+ends)
			if left != 60 || later != 100 || owed != 40*limit.Token {
				t.Errorf("%s, restarted: %t: %d left and %d later, want 60 and 100; %d owed", name, restart, left, later, owed/limit.Token)
			}
		}
	}
}
