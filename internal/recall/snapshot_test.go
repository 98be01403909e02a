package recall

import (
	"bytes"
	"encoding/gob"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"aliquot/budget"
	"aliquot/limit"
)

// TestASnapshotIsWhatTheTableKnows: a daemon is stopped after any calls, and its store loses its contents. The next run
// knows what the stopped one would know if it had lived. If the clock did not run on, it never knows of more.
func TestASnapshotIsWhatTheTableKnows(t *testing.T) {
	logs := limit.Limit{Algorithm: limit.SlidingLog, Capacity: 100 * limit.Token, Window: counting.Window}
	counter := limit.Limit{Algorithm: limit.SlidingCounter, Capacity: 100 * limit.Token, Window: counting.Window}
	rapid.Check(t, func(t *rapid.T) {
		l := rapid.SampledFrom([]limit.Limit{bucket, counting, logs, counter}).Draw(t, "limit")
		table, now := New(10, hour-budget.Instant(rapid.Int64Range(0, 200*int64(second)).Draw(t, "age"))), hour
		for range rapid.IntRange(1, 20).Draw(t, "calls") {
			now += budget.Instant(rapid.Int64Range(0, 20*int64(second)).Draw(t, "pause"))
			step(t, table, l, now)
		}
		table.HoldsUntil(now + second)
		saved, next := coded(t, table.Snapshot(now)), now+budget.Instant(rapid.Int64Range(1, 100*int64(second)).Draw(t, "away"))
		same, other := Restore(saved, 10, next, true), Restore(saved, 10, next, false)
		for _, table := range []*Table{table, same, other} {
			table.HoldsUntil(next + second)
			table.Emptied(next)
		}
		later := next + budget.Instant(rapid.Int64Range(0, 100*int64(second)).Draw(t, "later"))
		for n := range uint64(4) {
			c := charge(l, n, 1, later)
			want, got, least := table.Memory(&c, later), same.Memory(&c, later), other.Memory(&c, later)
			if !reflect.DeepEqual(want, got) {
				t.Errorf("key %d: the store is told of %+v after the restart, without one of %+v", n, got, want)
			}
			owed := other.Owed(c.Key, later) - table.Owed(c.Key, later) // is in what the store is told, and taken off it
			if least != nil && want != nil && (least.Tokens-owed > want.Tokens || least.Used < want.Used && least.At >= want.At) {
				t.Errorf("key %d: the store is told of %+v by another clock, without a restart of %+v", n, least, want)
			}
			if want, got := table.look(&c, later), same.look(&c, later); want != got {
				t.Errorf("key %d: %+v is left after the restart, %+v without one", n, got, want)
			}
			call := table.Call()
			if want, got := table.Carry(&c, call, later), same.Carry(&c, call, later); want.Amount != got.Amount {
				t.Errorf("key %d: %d is owed after the restart, %d without one", n, got.Amount, want.Amount)
			}
		}
	})
}

// step makes a call that is answered, lost or still in flight, or decides by the table.
func step(t *rapid.T, table *Table, l limit.Limit, now budget.Instant) {
	c, k := charge(l, rapid.Uint64Range(0, 3).Draw(t, "key"), rapid.IntRange(1, 30).Draw(t, "cost"), now), Ticket{}
	how := rapid.SampledFrom([]string{"answered", "denied", "lost", "in flight", "decided", "changing", "emptied"}).Draw(t, "how")
	switch how {
	case "changing":
		table.Forget(c.Key, now)
		return
	case "emptied":
		table.HoldsUntil(now + 1)
		table.Emptied(now)
		return
	}
	if how == "decided" {
		table.Decide([]Charge{c}, false, now, make([]limit.Outcome, 1))
		return
	}
	carried := table.Carry(&c, table.Call(), now)
	table.Sent(&k, &c, now)
	switch how {
	case "answered", "denied":
		out := limit.Outcome{Tokens: limit.Tokens(rapid.IntRange(0, 90).Draw(t, "left")) * limit.Token, Bucket: c.Bucket, Reset: 1}
		table.Answered(&k, &c, how == "answered", out, carried, int64(now)/1000, now)
	case "lost":
		table.Paid(c.Key, carried, false)
		table.Lost(&k, &c, now+second/2)
	}
}

// coded returns a snapshot as a file brings it back.
func coded(t *rapid.T, s *Snapshot) *Snapshot {
	var file bytes.Buffer
	var out Snapshot
	if err := gob.NewEncoder(&file).Encode(s); err != nil {
		t.Fatal(err)
	}
	if err := gob.NewDecoder(&file).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return &out
}

// TestNoSnapshotBesideAnother: a daemon that does not hold the session leaves nothing behind, because another daemon
// may have spent.
func TestNoSnapshotBesideAnother(t *testing.T) {
	table, now := New(10, 0), hour
	answered(table, bucket, 1, 40, now)
	table.HoldsUntil(now)
	if s := table.Snapshot(now); s != nil {
		t.Errorf("%+v is left behind", s)
	}
}

// TestASnapshotOfAFullTable: a table that cannot hold all keys of the snapshot counts on nothing of keys that it does
// not know.
func TestASnapshotOfAFullTable(t *testing.T) {
	table, now := New(10, 0), hour
	for n := range uint64(10) {
		answered(table, bucket, n, 0, now)
	}
	table.HoldsUntil(now + second)
	smaller := Restore(table.Snapshot(now), 5, now, true)
	if n := burst(smaller, bucket, 100, now+second); n != 10 || smaller.Len() > 6 {
		t.Errorf("%d admitted of a key that may have been used, of %d keys; a second earns 10", n, smaller.Len())
	}
}

// TestNothingIsEarnedByAnotherClock: the clock of the next run says nothing of the time between.
func TestNothingIsEarnedByAnotherClock(t *testing.T) {
	for _, began := range []budget.Instant{second, hour, 100 * hour} {
		table := Restore(left(hour), 10, began, false)
		if n := burst(table, bucket, 1, began+second); n != 50 {
			t.Errorf("a clock at %v: %d admitted, want 40 and the 10 that a second earns", began, n)
		}
	}
}
