package recall

import (
	"reflect"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

// minuteLog and minuteCounter allow 100 a minute.
var (
	minuteLog     = limit.Limit{Algorithm: limit.SlidingLog, Capacity: 100 * limit.Token, Window: time.Minute}
	minuteCounter = limit.Limit{Algorithm: limit.SlidingCounter, Capacity: 100 * limit.Token, Window: time.Minute}
)

// admit tells the table that the store admitted a call of a cost at a second of its clock, and had so many tokens left.
func admit(t *Table, l limit.Limit, cost, left int, at int64) { send(t, l, cost, left, at)() }

// send is admit in two parts: the call leaves now, and its answer comes with the one that send returns.
func send(t *Table, l limit.Limit, cost, left int, at int64) (answer func()) {
	now := budget.Instant(at) * second
	var k Ticket
	c := charge(l, 1, cost, now)
	t.Sent(&k, &c, now)
	return func() {
		t.Answered(&k, &c, true, limit.Outcome{Tokens: limit.Tokens(left) * limit.Token, Bucket: c.Bucket}, Debt{}, at*1_000_000, now)
	}
}

// remembers is what a store with other contents is told of key 1, in tokens and seconds.
func remembers(t *Table, l limit.Limit) [][2]int64 {
	const later = hour + 2*60*second
	t.HoldsUntil(later + 1)
	t.Emptied(later)
	c := charge(l, 1, 0, later)
	m := t.Memory(&c, later)
	if m == nil {
		return nil
	}
	var out [][2]int64
	for _, d := range append(m.Earlier, limit.DatedUse{Used: m.Used, At: m.At}) {
		out = append(out, [2]int64{int64(d.Used / limit.Token), (d.At + 999_999) / 1_000_000})
	}
	return out
}

// TestUseIsDated: what is in use counts from when this daemon's calls were admitted, and from the store's latest
// answer where they do not explain it.
func TestUseIsDated(t *testing.T) {
	for name, is := range map[string]struct {
		limit limit.Limit
		calls func(*Table)
		want  [][2]int64
	}{
		"the worked number": {minuteLog, func(t *Table) {
			admit(t, minuteLog, 15, 85, 3631)
			admit(t, minuteLog, 5, 80, 3644)
			admit(t, minuteLog, 10, 40, 3650) // another daemon admitted 30 more
		}, [][2]int64{{20, 3645}, {40, 3650}}},
		"a part before those that are known": {minuteLog, func(t *Table) {
			admit(t, minuteLog, 8, 92, 3601)
			admit(t, minuteLog, 5, 87, 3620)
			admit(t, minuteLog, 1, 94, 3662)
		}, [][2]int64{{5, 3630}, {1, 3662}}},
		"an answer that is overtaken": {minuteLog, func(t *Table) {
			overtaken := send(t, minuteLog, 20, 60, 3640)
			admit(t, minuteLog, 1, 50, 3650)
			overtaken()
		}, [][2]int64{{20, 3645}, {30, 3650}}},
		"long ago": {minuteLog, func(t *Table) {
			admit(t, minuteLog, 20, 80, 3600)
			admit(t, minuteLog, 1, 99, 3700)
		}, [][2]int64{{1, 3700}}},
		"less in use than was admitted": {minuteLog, func(t *Table) {
			admit(t, minuteLog, 20, 80, 3610)
			admit(t, minuteLog, 1, 90, 3630)
		}, [][2]int64{{10, 3630}}},
		"a call that gives back": {minuteLog, func(t *Table) {
			admit(t, minuteLog, 20, 80, 3610)
			t.Undate(keyOf(1))
			admit(t, minuteLog, 1, 79, 3630)
		}, [][2]int64{{21, 3630}}},
		"a clock that is set back": {minuteLog, func(t *Table) {
			admit(t, minuteLog, 20, 80, 3620)
			admit(t, minuteLog, 1, 79, 3640)
			var k Ticket
			c := charge(minuteLog, 1, 1, 3650*second)
			t.Sent(&k, &c, 3650*second)
			t.Answered(&k, &c, true, limit.Outcome{Tokens: 78 * limit.Token, Bucket: c.Bucket}, Debt{}, 3610_000_000, 3650*second)
		}, [][2]int64{{22, 3610}}},
		"two windows of a counter": {minuteCounter, func(t *Table) {
			admit(t, minuteCounter, 40, 60, 3650)
			admit(t, minuteCounter, 2, 68, 3675) // 3/4 of the 40, and 2
		}, [][2]int64{{40, 3660}, {2, 3675}}},
		"a counter's use by others": {minuteCounter, func(t *Table) {
			admit(t, minuteCounter, 40, 40, 3650)
			admit(t, minuteCounter, 2, 53, 3675) // 3/4 of 60, and 2
		}, [][2]int64{{40, 3660}, {17, 3675}}},
		"a fixed window": {counting, func(t *Table) {
			admit(t, counting, 20, 80, 3610)
			admit(t, counting, 20, 60, 3630)
		}, [][2]int64{{40, 3630}}},
	} {
		table := New(10, 0)
		is.calls(table)
		if got := remembers(table, is.limit); !reflect.DeepEqual(got, is.want) {
			t.Errorf("%s: %v, want %v", name, got, is.want)
		}
	}
}

// TestAnswersOfOtherContentsDateNothing: a call of contents that are lost was admitted, but the present record may not
// know of it.
func TestAnswersOfOtherContentsDateNothing(t *testing.T) {
	table := New(10, 0)
	late := send(table, minuteLog, 20, 80, 3610)
	table.HoldsUntil(3611 * second)
	table.Emptied(3610*second + 1)
	admit(table, minuteLog, 1, 70, 3612)
	late()
	admit(table, minuteLog, 1, 69, 3630)
	if got := remembers(table, minuteLog); !reflect.DeepEqual(got, [][2]int64{{1, 3615}, {30, 3630}}) {
		t.Errorf("%v", got)
	}
}

// TestUseIsNotDatedAfterAnotherDaemon: another daemon of the region may have given back what this one's calls were
// admitted. So they explain nothing until none of it can be in use.
func TestUseIsNotDatedAfterAnotherDaemon(t *testing.T) {
	for after, want := range map[budget.Instant]int{60 * second: 0, 90 * second: 1} {
		table, now := New(10, 0), 3640*second
		admit(table, minuteLog, 20, 80, 3610)
		admit(table, minuteLog, 1, 79, 3630)
		e, c := *table.keys.find(keyOf(1)), charge(minuteLog, 1, 1, now)
		c.From = now - after
		if earlier, _ := table.usedBy(&c, &e, now); len(earlier) != want {
			t.Errorf("%v after it: %v", after, earlier)
		}
	}
}

// TestUseOfAnotherWindowIsNotDated: parts of a window of another length explain nothing.
func TestUseOfAnotherWindowIsNotDated(t *testing.T) {
	table, longer := New(10, 0), minuteLog
	longer.Window = time.Hour
	admit(table, minuteLog, 20, 80, 3610)
	admit(table, minuteLog, 1, 79, 3630)
	if got := remembers(table, longer); !reflect.DeepEqual(got, [][2]int64{{21, 3630}}) {
		t.Errorf("%v", got)
	}
}

// TestMoreThanTheRightsCountInTheNextWindow: a region's right to a sliding counter has shrunk to 20 while 35 are in use. A
// denial says so, and a part of all 35 counts in the next window. If the store does not know itself what is in use, nothing
// is admitted until none of it can be.
func TestMoreThanTheRightsCountInTheNextWindow(t *testing.T) {
	const began = 60 * hour // of a window
	right := limit.Bucket{Cap: 20 * limit.Token}
	for name, denial := range map[string]struct {
		out  limit.Outcome
		left map[budget.Instant]int // by seconds
	}{
		"35 in use":         {limit.Outcome{Tokens: -15 * limit.Token, Bucket: right}, map[budget.Instant]int{1: 0, 59: 0, 61: 0, 90: 2, 110: 14, 121: 20}},
		"not known":         {limit.Outcome{Tokens: -limit.MaxTokens}, map[budget.Instant]int{1: 0, 59: 0, 121: 0, 179: 0, 181: 20}},
		"as many as rights": {limit.Outcome{Bucket: right}, map[budget.Instant]int{1: 0, 59: 0, 90: 10, 121: 20}},
	} {
		table := New(10, 0)
		answered(table, minuteCounter, 1, 99, began-30*second) // in the window before
		var k Ticket
		c := charge(minuteCounter, 1, 1, began)
		table.Sent(&k, &c, began)
		denial.out.Reset = 120_000_000
		table.Answered(&k, &c, false, denial.out, Debt{}, int64(began)/1000, began)
		for after, left := range denial.left {
			now := began + after*second
			c := charge(minuteCounter, 1, 1, now)
			c.Bucket = right
			n := 0
			for ; n < 30 && table.wouldAdmit(&c, now); n++ {
				c.Cost += limit.Token
			}
			if n != left {
				t.Errorf("%s: %d s later %d are left, want %d", name, after, n, left)
			}
		}
	}
}

// TestADenialSaysWhatIsInUseOfALog: a log's right has shrunk to 6 while 15 are in use, of which this daemon's calls were
// admitted 4 long ago. When these 4 no longer count, 11 still do.
func TestADenialSaysWhatIsInUseOfALog(t *testing.T) {
	table, now := New(10, 0), 60*hour+7*second // amid a part
	for _, x := range []struct {
		ago   budget.Instant
		calls int
	}{{50 * second, 4}, {20 * second, 1}, {second, 10}} {
		for range x.calls {
			answered(table, minuteLog, 1, 90, now-x.ago)
		}
	}
	var k Ticket
	c := charge(minuteLog, 1, 1, now)
	c.Bucket.Cap = 6 * limit.Token
	table.Sent(&k, &c, now)
	table.Answered(&k, &c, false, limit.Outcome{Tokens: -9 * limit.Token, Bucket: c.Bucket, Reset: 60_000_000, Retry: 40_000_000}, Debt{}, int64(now)/1000, now)
	for _, later := range []budget.Instant{second, 28 * second, 45 * second} {
		c := charge(minuteLog, 1, 1, now+later)
		c.Bucket.Cap = 6 * limit.Token
		if table.wouldAdmit(&c, now+later) {
			t.Errorf("%d s later one more is admitted", later/second)
		}
	}
	c = charge(minuteLog, 1, 6, now+61*second)
	if c.Bucket.Cap = 6 * limit.Token; !table.wouldAdmit(&c, now+61*second) {
		t.Error("a window later nothing is left")
	}
}
