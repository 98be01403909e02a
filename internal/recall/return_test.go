package recall

import (
	"testing"

	"aliquot/budget"
	"aliquot/limit"
)

// left is what a daemon leaves at an instant whose store has said that 40 of 100 are left of key 1.
func left(now budget.Instant) *Snapshot {
	table := New(10, now-10*second)
	answered(table, bucket, 1, 40, now)
	table.HoldsUntil(now + second)
	return table.Snapshot(now)
}

// TestReturn: a daemon that comes back spends nothing until it is decided whether what it remembered holds. If it does,
// the store is told of it; if not, of nothing.
func TestReturn(t *testing.T) {
	now := hour + second
	r, table := NewReturn(left(hour), "before", true, hour), New(10, now)
	if !r.HoldsBack("after") || r.HoldsBack("before") || r.HoldsBack("") {
		t.Error("it is held back by other contents than those of the store that lost its contents")
	}
	next := r.Resume(table, "after", now)
	c := charge(bucket, 1, 0, now)
	if m := next.Memory(&c, now); m == nil || m.Tokens != 50*limit.Token {
		t.Errorf("the store is told of %+v, want the 40 and what a second earns", m)
	}
	if !r.HoldsBack("after") || !r.Resumed() || !r.Waits() {
		t.Error("it spends before its session is in force")
	}
	if r.Opened(); r.HoldsBack("after") || r.Waits() {
		t.Error("it is held back for ever")
	}

	r = NewReturn(left(hour), "before", true, hour)
	if r.Forgo(); r.HoldsBack("after") || r.Resume(table, "after", now) != table || r.Resumed() {
		t.Error("what does not hold is used")
	}
	r = NewReturn(left(hour), "before", true, hour)
	if r.Opened(); r.Resume(table, "after", now) != table {
		t.Error("what was not decided in time is used")
	}
}

// TestAReturnThatChangesNothing: records that the store has still are newer than what the daemon remembers. What it has
// admitted since it came back is not in what it remembers either.
func TestAReturnThatChangesNothing(t *testing.T) {
	now := hour + 60*second
	r, table := NewReturn(left(hour), "before", true, hour), New(10, hour)
	if r.Resume(table, "before", now) != table || r.HoldsBack("before") {
		t.Error("the store has its records, and is told of older ones")
	}
	r = NewReturn(left(hour), "before", true, hour)
	if n := burst(table, bucket, 2, now); n == 0 {
		t.Fatal("nothing is admitted")
	}
	if r.Resume(table, "after", now) != table {
		t.Error("what was admitted since the start is forgotten")
	}
}

// TestTheSameContentsAreAdopted: the store has its contents still. What it has said to the new run is newer than what the
// last one knew, which counts for all other keys. What the last run owed is owed.
func TestTheSameContentsAreAdopted(t *testing.T) {
	last := New(10, hour-600*second)
	answered(last, bucket, 1, 40, hour)
	answered(last, bucket, 2, 10, hour)
	c := charge(bucket, 1, 5, hour)
	if !last.Decide([]Charge{c}, false, hour, make([]limit.Outcome, 1)) {
		t.Fatal("not admitted")
	}
	last.HoldsUntil(hour + second)
	began, now := hour+2*second, hour+3*second
	r, table := NewReturn(last.Snapshot(hour), "same", true, began), New(10, began)
	answered(table, bucket, 1, 70, began)
	if r.Resume(table, "same", now) != table {
		t.Fatal("the present table is given up")
	}
	for n, want := range map[uint64]int{1: 75, 2: 40, 3: 100} {
		if got := burst(table, bucket, n, now); got != want {
			t.Errorf("key %d: %d admitted, want %d", n, got, want)
		}
	}
	c = charge(bucket, 1, 0, now)
	if owed := table.Owed(c.Key, now) / limit.Token; owed != 80 {
		t.Errorf("%d are owed, want the 5 of the last run and the 75 of this one", owed)
	}
}

// TestALossIsAsOldAsItIs: the last run told contents what it remembered of earlier ones. Its next run goes on with that,
// but no longer than the last run would have: since then a record that is absent says more than the table, which may
// have had no room.
func TestALossIsAsOldAsItIs(t *testing.T) {
	for ago, told := range map[budget.Instant]bool{second: true, 100 * second: false} {
		last := New(10, hour-600*second)
		last.HoldsUntil(hour + second)
		last.Emptied(hour - ago)
		last.whole = hour
		r, now := NewReturn(last.Snapshot(hour), "same", true, hour+second), hour+2*second
		table := r.Resume(New(10, hour+second), "same", now)
		c := charge(bucket, 1, 0, now) // full in a minute
		if m := table.Memory(&c, now); (m != nil) != told {
			t.Errorf("contents were lost %d s ago, and the store is told %+v", ago/second, m)
		}
	}
}

// TestSlotsOfTheLastRun: slots that a daemon gave out without its store count in its next run until they end, and are
// carried to the store.
func TestSlotsOfTheLastRun(t *testing.T) {
	for contents, holds := range map[string]bool{"before": true, "after": false} {
		last, now := slotsTable()
		storeGives(last, 1, 3, now)
		given(last, 10, now)
		last.HoldsUntil(now + second)
		r := NewReturn(last.Snapshot(now), "before", true, now)
		table := r.Resume(New(10, now), contents, now)
		if n := given(table, 20, now+second); n != 0 {
			t.Errorf("%d given out of 4 that are in use; the store has its contents: %v", n, holds)
		}
		if names, _ := carried(table, now+second); len(names) != 3 {
			t.Errorf("carried are %v, want the three that were given out; the store has its contents: %v", names, holds)
		}
	}
}

// TestCallsThatTheLastRunLost: nine calls for 10 of 100 are lost, one after the other, and then the daemon is started again.
// Its store has its contents still. A token is earned in 100 s.
func TestCallsThatTheLastRunLost(t *testing.T) {
	l := limit.Limit{Capacity: 100 * limit.Token, Rate: limit.Rate{Micro: int64(limit.Token) / 100}}
	table, now := New(10, 0), hour
	answered(table, l, 1, 100, now)
	for range 9 {
		loses(table, l, 1, 10, now)
		now += second
	}
	table.HoldsUntil(now + second)
	r := NewReturn(table.Snapshot(now), "same", true, now)
	next := r.Resume(New(10, now), "same", now)
	if left := fits(next, l, now+5*second); left != 10 {
		t.Errorf("%d left, want 100 less the nine calls for 10", left)
	}
}
