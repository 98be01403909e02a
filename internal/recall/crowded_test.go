package recall

import (
	"testing"

	"aliquot/budget"
	"aliquot/limit"
)

// TestAKeyForWhichThereIsNoRoomWasUsed: a full table cannot drop any key, and so has no room for one that is used. That
// key does not count as unused when there is room again.
func TestAKeyForWhichThereIsNoRoomWasUsed(t *testing.T) {
	later := hour + second
	for _, used := range []struct {
		name  string
		sends bool
		then  func(*Table, *Ticket)
	}{
		{"a call in flight", true, func(*Table, *Ticket) {}},
		{"an answered call", true, func(table *Table, k *Ticket) {
			c := charge(bucket, 2, 100, later)
			table.Answered(k, &c, true, limit.Outcome{Bucket: c.Bucket}, Debt{}, int64(later)/1000, later)
		}},
		{"a call without an answer", true, func(table *Table, k *Ticket) {
			c := charge(bucket, 2, 100, later)
			table.Lost(k, &c, later)
		}},
		{"a share that changes", false, func(table *Table, _ *Ticket) { table.Forget(keyOf(2), hour) }},
		{"a share that has changed", false, func(table *Table, _ *Ticket) {
			table.Forget(keyOf(2), hour-10*second)
			table.Tell(keyOf(2), 0, bucket.Rate.Micro, int64(hour)/1000, hour)
		}},
	} {
		table := New(1, 0)
		var other, k Ticket
		c := charge(bucket, 1, 1, hour)
		answered(table, bucket, 1, 100, second)
		table.Sent(&other, &c, hour) // it cannot be dropped meanwhile
		if crowding := charge(bucket, 2, 100, hour); used.sends {
			table.Sent(&k, &crowding, hour)
		}
		used.then(table, &k)
		table.NotSent(&other, &c)
		if n := burst(table, bucket, 2, later); n > 10 {
			t.Errorf("%s: %d admitted of a key that was used a second ago", used.name, n)
		}
	}
}

// TestTheNextRunKnowsThatATableWasFull: a call of a key for which there was no room spends all 100 of it, and the daemon
// stops before it looks at another key. The next run tells a store that has lost its contents what the key has earned since.
func TestTheNextRunKnowsThatATableWasFull(t *testing.T) {
	for name, is := range map[string]struct {
		end  func(*Table, *Ticket, *Charge)
		left limit.Tokens
	}{
		"in flight": {func(*Table, *Ticket, *Charge) {}, 10}, // it may be decided up to two seconds after the stop
		"answered": {func(table *Table, k *Ticket, c *Charge) {
			table.Answered(k, c, true, limit.Outcome{Bucket: c.Bucket}, Debt{}, int64(hour)/1000, hour)
		}, 30},
	} {
		table := New(1, 0)
		var other, k Ticket
		c, crowding := charge(bucket, 1, 1, hour), charge(bucket, 2, 100, hour)
		answered(table, bucket, 1, 100, second)
		table.Sent(&other, &c, hour)
		table.Sent(&k, &crowding, hour)
		is.end(table, &k, &crowding)
		table.HoldsUntil(hour + second)
		later := hour + 3*second
		next := Restore(table.Snapshot(hour), DefaultKeys, later, true)
		next.HoldsUntil(later + second)
		next.Emptied(later)
		q := charge(bucket, 2, 1, later)
		if m := next.Memory(&q, later); m == nil || m.Tokens != is.left*limit.Token {
			t.Errorf("%s: the store is told %+v, want %d", name, m, is.left)
		}
	}
}

// TestADroppedBucketIsEmptyWhenItWas: a full table drops a bucket that owes four and earns one a second, or one of which a
// call may have taken the five that were earned by the loss of the store's contents. It does not count as empty before that.
func TestADroppedBucketIsEmptyWhenItWas(t *testing.T) {
	l := perSecond["bucket"]
	for name, is := range map[string]struct {
		used func(*Table, *Ticket)
		at   budget.Instant // when nothing is left
	}{
		"a debt": {func(table *Table, k *Ticket) {
			c := charge(l, 1, 4, hour)
			table.Sent(k, &c, hour)
			table.Adjusted(k, &c, -4*limit.Token, 0, Debt{}, int64(hour)/1000, hour)
		}, hour + 4*second},
		"a call of lost contents": {func(table *Table, k *Ticket) {
			answered(table, l, 1, 0, hour)
			c := charge(l, 1, 5, hour+5*second)
			table.Sent(k, &c, hour+5*second)
			table.HoldsUntil(hour + 6*second)
			table.Emptied(hour + 5*second)
		}, hour + 5*second},
	} {
		var k Ticket
		table := New(1, 0)
		is.used(table, &k)
		answered(table, l, 2, 5, is.at-second/10)
		if !table.keys.has(keyOf(1)) {
			t.Errorf("%s: dropped too early", name)
		}
		answered(table, l, 2, 5, is.at)
		if table.keys.has(keyOf(1)) {
			t.Errorf("%s: not dropped", name)
		}
		if n := fits(table, l, is.at+2*second); n != 2 {
			t.Errorf("%s: %d left two seconds later, want 2", name, n)
		}
	}
}

// TestACallThatFoundNoRoomEnds: there was no room for a key's first call for five. There is for its second one, which is
// under way for all five when the first one ends: none is left, also when the bucket has had time to fill.
func TestACallThatFoundNoRoomEnds(t *testing.T) {
	table, l, later := New(1, 0), perSecond["bucket"], hour+60*second
	var other, first, next Ticket
	crowding, c := charge(l, 2, 1, hour), charge(l, 1, 5, hour)
	table.Sent(&other, &crowding, hour)
	table.Sent(&first, &c, hour)
	table.NotSent(&other, &crowding)
	table.Sent(&next, &c, later)
	table.NotSent(&first, &c)
	if left := fits(table, l, later+10*second); left != 0 {
		t.Errorf("%d left beside a call for all five", left)
	}
}

// TestAKeyForWhichThereIsNoRoomHasNothing: what a request takes of it could not be remembered. So the key has no tokens, also
// beside one that is known and has some.
func TestAKeyForWhichThereIsNoRoomHasNothing(t *testing.T) {
	table := New(1, 0)
	known, crowded := charge(bucket, 1, 1, hour), charge(bucket, 2, 1, hour)
	var k Ticket
	table.Sent(&k, &known, hour) // it cannot be dropped meanwhile
	out := make([]limit.Outcome, 2)
	if table.Decide([]Charge{known, crowded}, false, hour, out) {
		t.Error("a request was admitted that nothing remembers")
	}
	if out[0].Tokens < known.Cost || out[1].Tokens >= crowded.Cost {
		t.Errorf("%v and %v tokens; want some of the key that is known, and none of the other one", out[0].Tokens, out[1].Tokens)
	}
}
