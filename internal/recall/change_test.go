package recall

import (
	"testing"

	"aliquot/budget"
	"aliquot/limit"
)

// TestAnOlderAnswerWhileAShareChanges: two calls are under way. The answer to the later one comes first: 50 are used.
// Then a share change leaves for the store, and the answer to the earlier call comes: 11 were used. That says nothing
// new, also if the change is never answered.
func TestAnOlderAnswerWhileAShareChanges(t *testing.T) {
	for _, l := range []limit.Limit{counting, bucket} {
		table, now := New(10, 0), hour
		c := charge(l, 1, 1, now)
		var first, later Ticket
		table.Sent(&first, &c, now)
		table.Sent(&later, &c, now)
		out := func(left int) limit.Outcome {
			return limit.Outcome{Tokens: limit.Tokens(left) * limit.Token, Bucket: limit.Bucket{Cap: 100 * limit.Token}, Reset: 1}
		}
		table.Answered(&later, &c, true, out(50), Debt{}, int64(now)/1000+2, now+second)
		table.Forget(c.Key, now+second)
		table.Answered(&first, &c, true, out(89), Debt{}, int64(now)/1000+1, now+second)
		if left := table.look(&c, now+second).Tokens / limit.Token; left > 50 {
			t.Errorf("%v: %d left, want 50 at most", l.Algorithm, left)
		}
	}
}

// TestALaterAnswerThanAShareChange: the store changes a share and then decides a call. The call's answer comes first. It
// holds, whatever the change's answer says; that one holds if it is the later one.
func TestALaterAnswerThanAShareChange(t *testing.T) {
	for stamp, want := range map[int64]limit.Tokens{1: 40, 2: 40, 3: 50} {
		table, now := New(10, 0), hour
		answered(table, bucket, 1, 80, now-second)
		c := charge(bucket, 1, 10, now)
		var k Ticket
		table.Forget(c.Key, now)
		table.Sent(&k, &c, now)
		table.Answered(&k, &c, true, limit.Outcome{Tokens: 40 * limit.Token, Bucket: c.Bucket}, Debt{}, int64(now)/1000+2, now)
		table.Tell(c.Key, 50*limit.Token, bucket.Rate.Micro, int64(now)/1000+stamp, now)
		if left := table.look(&c, now).Tokens / limit.Token; left != want {
			t.Errorf("changed at %d, the call was decided at 2: %d left, want %d", stamp, left, want)
		}
	}
}

// TestASlowTimeIsEarnedSlowly: a limit was lowered for a while. What the daemon knew of a bucket before has earned the
// slow rate until the end of that time, also while part of it is borrowed.
func TestASlowTimeIsEarnedSlowly(t *testing.T) {
	for _, lent := range []limit.Tokens{0, 10 * limit.Token} {
		table, began := New(10, 0), hour
		answered(table, bucket, 1, 0, began)
		if lent > 0 {
			table.borrowed(keyOf(1), lent, began+second, int64(began)/1000)
		}
		at := began + 5*second
		c := charge(bucket, 1, 1, at)
		c.Former.Rate.Micro, c.SlowUntil = bucket.Rate.Micro/10, began+3*second
		want := limit.Tokens(3*c.Former.Rate.Micro + 2*bucket.Rate.Micro)
		if got := table.look(&c, at).Tokens; got != want {
			t.Errorf("%d micro-tokens after three slow seconds and two others, want %d", got, want)
		}
	}
}

// TestWhatAShareChangeTellsOfUse: the daemon admits requests by itself. Then a share change that does not carry this
// debt says what is in use. That counts beside the debt, and in place of what the store has reported before.
func TestWhatAShareChangeTellsOfUse(t *testing.T) {
	for _, is := range []struct{ paid, used, want int }{{0, 100, 0}, {0, 80, 15}, {3, 83, 15}, {5, 85, 15}, {0, 60, 35}} {
		table, now := New(10, 0), hour
		answered(table, counting, 1, 40, now)
		for range 5 {
			c := charge(counting, 1, 1, now)
			if !table.Decide([]Charge{c}, false, now, make([]limit.Outcome, 1)) {
				t.Fatal("40 are left, and none is admitted")
			}
		}
		c := charge(counting, 1, 0, now)
		debt := table.Carry(&c, table.Call(), now)
		debt.Amount, debt.upTo = limit.Tokens(is.paid)*limit.Token, limit.Tokens(is.paid)*limit.Token
		table.Paid(c.Key, debt, true)
		table.Forget(c.Key, now)
		table.TellUse(&c, limit.Tokens(100-is.used)*limit.Token, limit.Tokens(is.used)*limit.Token, int64(now)/1000+1, now+second)
		if n := burst(table, counting, 1, now+second); n != is.want {
			t.Errorf("%d of 5 paid, %d in use by the store: %d more are admitted, want %d", is.paid, is.used, n, is.want)
		}
	}
}

// lastingLimits are a bucket that earns nothing and a counting limit, both of 100.
var lastingLimits = []limit.Limit{{Capacity: 100 * limit.Token}, counting}

// calls sends a call for nothing, which the store decides at once. answer says a little later how much was left.
func calls(table *Table, l limit.Limit, now budget.Instant) (answer func(left int)) {
	var k Ticket
	c := charge(l, 1, 0, now)
	table.Sent(&k, &c, now)
	return func(left int) {
		out := limit.Outcome{Tokens: limit.Tokens(left) * limit.Token, Bucket: limit.Bucket{Cap: l.Capacity}, Reset: 1}
		table.Answered(&k, &c, true, out, Debt{}, int64(now)/1000, now+second/100)
	}
}

// TestAnAnswerOfBeforeAShareChange: a share change leaves for the store, which decides a call first: 100 are left. Then
// the store is silent. The change may give half of that to others, so nothing of it counts until the change is answered,
// or until a call is answered that left when the change could no longer be made.
func TestAnAnswerOfBeforeAShareChange(t *testing.T) {
	for _, l := range lastingLimits {
		table := New(10, 0)
		holds := func(when string, want int, now budget.Instant) {
			t.Helper()
			c := charge(l, 1, 0, now)
			if got, told := int(table.look(&c, now).Tokens/limit.Token), table.Tells(&c, now); got != want || told != (want > 0) {
				t.Errorf("%v, %s: %d left (known: %t), want %d", l.Algorithm, when, got, told, want)
			}
		}
		before := calls(table, l, hour)
		table.Forget(keyOf(1), hour)
		before(100)
		holds("the change is under way", 0, hour+second/2)
		during := calls(table, l, hour+second/2)
		table.Untold(keyOf(1), hour+second)
		during(100)
		holds("the change was not answered", 0, hour+second)
		calls(table, l, hour+second)(50)
		holds("a call was sent after it", 50, hour+2*second)
	}
}

// TestAnAnswerOfBeforeAShareChangeIsNotRemembered: the same, and the store loses its contents, or the daemon stops. What
// the next contents or the next run are told has nothing of that answer.
func TestAnAnswerOfBeforeAShareChangeIsNotRemembered(t *testing.T) {
	for _, l := range lastingLimits {
		table := New(10, 0)
		before := calls(table, l, hour)
		table.Forget(keyOf(1), hour)
		before(100)
		table.HoldsUntil(hour + 2*second)
		for how, table := range map[string]*Table{"daemon": Restore(table.Snapshot(hour+second), 10, hour+second, true), "store": table} {
			table.HoldsUntil(hour + 2*second)
			table.Emptied(hour + second)
			if tokens, used, known := memory(table, l, 1, hour+second); tokens > 0 || known && l.Algorithm.Counts() {
				t.Errorf("%v, another %s: %d tokens, %d in use (known: %t)", l.Algorithm, how, tokens, used, known)
			}
		}
	}
}

// TestTheLateAnswerToAShareChange: a share change leaves for the store, and a call for 30 of 100 after it. The store makes
// both and loses its contents, which the daemon learns before the change is answered. The 30 stay taken with the
// session; without it the key has started empty.
func TestTheLateAnswerToAShareChange(t *testing.T) {
	for _, l := range lastingLimits {
		for _, session := range []bool{true, false} {
			table := New(10, 0)
			answered(table, l, 1, 100, hour)
			c := charge(l, 1, 30, hour)
			table.Forget(c.Key, hour)
			var k Ticket
			table.Sent(&k, &c, hour)
			if session {
				table.HoldsUntil(hour + second)
			}
			table.Emptied(hour + second/2)
			if stamp := int64(hour)/1000 + 1; l.Algorithm.Counts() {
				table.TellUse(&c, 100*limit.Token, 0, stamp, hour+second/2)
			} else {
				table.Tell(c.Key, 100*limit.Token, 0, stamp, hour+second/2)
			}
			if n := fits(table, l, hour+second); n > 0 {
				t.Errorf("%v, in session: %t: %d left, want none", l.Algorithm, session, n)
			}
			if tokens, used, known := memory(table, l, 1, hour+second); tokens > 0 || known && l.Algorithm.Counts() {
				t.Errorf("%v, in session: %t: %d tokens, %d in use (known: %t)", l.Algorithm, session, tokens, used, known)
			}
		}
	}
}

// TestWhatIsAdmittedWhileAShareChanges: the store loses its contents, in which 10 are left and a call may have taken some.
// Then a share change fails, and four are admitted from memory. The next call tells of what was left before the change,
// with five seconds' earnings, and carries the four.
func TestWhatIsAdmittedWhileAShareChanges(t *testing.T) {
	l := perSecond["bucket"]
	l.Capacity = 100 * limit.Token
	for inFlight := range 11 {
		table := New(10, 0)
		answered(table, l, 1, 10, hour)
		var k Ticket
		c := charge(l, 1, inFlight, hour)
		table.Sent(&k, &c, hour)
		table.HoldsUntil(hour + second)
		table.Emptied(hour)
		table.Forget(c.Key, hour)
		now := hour + 5*second
		table.Untold(c.Key, now)
		for range 4 {
			if one := charge(l, 1, 1, now); !table.Decide([]Charge{one}, false, now, make([]limit.Outcome, 1)) {
				t.Fatal("five are earned, and four are not admitted")
			}
		}
		c = charge(l, 1, 0, now)
		carried := table.Carry(&c, table.Call(), now).Amount
		tokens, _, _ := memory(table, l, 1, now)
		if left, want := tokens-int64(carried/limit.Token), int64(10-inFlight+5-4); left != want {
			t.Errorf("a call for %d: the store has %d left, want %d", inFlight, left, want)
		}
	}
}

// TestWhatIsOwedBeforeAShareChanges: three are owed before the change, and two more after it. What the store is told has
// paid for neither, because the call carries both.
func TestWhatIsOwedBeforeAShareChanges(t *testing.T) {
	l := perSecond["bucket"]
	l.Capacity = 100 * limit.Token
	table := emptied(l, 10, hour)
	admit := func(n int, now budget.Instant) {
		if c := charge(l, 1, n, now); !table.Decide([]Charge{c}, false, now, make([]limit.Outcome, 1)) {
			t.Fatalf("%d are not admitted", n)
		}
	}
	admit(3, hour)
	table.Forget(keyOf(1), hour)
	table.Untold(keyOf(1), hour)
	now := hour + 2*second
	admit(2, now)
	c := charge(l, 1, 0, now)
	if tokens, _, _ := memory(table, l, 1, now); tokens != 13 || table.Carry(&c, table.Call(), now).Amount != 5*limit.Token {
		t.Errorf("told of %d, want 10 and three seconds' earnings", tokens)
	}
}

// TestADebtOutlastsAShareChange: four of one were used too much, which the settlement says. The record keeps this debt when
// its share changes, so nothing is left until it is earned: during the change, if it is never answered, and after.
func TestADebtOutlastsAShareChange(t *testing.T) {
	l := perSecond["bucket"]
	table, stamp := New(10, 0), int64(hour)/1000
	answered(table, l, 1, 1, hour)
	var k Ticket
	c := charge(l, 1, 4, hour)
	table.Sent(&k, &c, hour)
	table.Adjusted(&k, &c, -4*limit.Token, 0, Debt{}, stamp+1, hour)
	for when, step := range map[string]func(){
		"changing": func() { table.Forget(c.Key, hour) },
		"untold":   func() { table.Forget(c.Key, hour); table.Untold(c.Key, hour) },
		"changed":  func() { table.Forget(c.Key, hour); table.Tell(c.Key, -4*limit.Token, l.Rate.Micro, stamp+2, hour) },
	} {
		step()
		for after, want := range map[budget.Instant]int{3: 0, 4: 0, 5: 1} {
			if n := fits(table, l, hour+after*second); n != want {
				t.Errorf("%s: %d left after %d s, want %d", when, n, after, want)
			}
		}
	}
}

// slowed is a charge for key n of bucket, which earned ten times as much until a second ago.
func slowed(n uint64, cost int, now budget.Instant) Charge {
	c := charge(bucket, n, cost, now)
	c.Revised, c.SlowUntil = now-second, now
	c.Former = limit.Bucket{Cap: bucket.Capacity, Rate: limit.Rate{Micro: 10 * bucket.Rate.Micro}}
	return c
}

// TestAnUnusedKeyOfALimitThatHasChanged: the table has seen all that was used for some time. The limit of a key that was
// not used changed a second ago. Its bucket earned by the former limit until then, at most what that one held. If it is
// not known when the limit changed, the slower of the two counts.
func TestAnUnusedKeyOfALimitThatHasChanged(t *testing.T) {
	now, fast := hour, 10*bucket.Rate.Micro
	for _, tt := range []struct {
		name     string
		since    budget.Instant // of the table
		capacity limit.Tokens   // of the former limit
		rate     int64          // of the former limit
		want     limit.Tokens
	}{
		{"slowed, and full by then", now - 3*second, 100, fast, 100},
		{"slowed, and half full by then", now - second - second/2, 100, fast, 60},
		{"slowed, and nothing seen before", now - second, 100, fast, 10},
		{"slowed at an unknown time", now - 3*second, 0, fast, 30},
		{"raised to twice the burst", now - 11*second, 50, bucket.Rate.Micro, 60},
		{"quickened", now - 11*second, 100, bucket.Rate.Micro / 10, 11},
		{"the limits before are unknown", now - 11*second, 0, 0, 0},
	} {
		c := slowed(1, 1, now)
		c.Former = limit.Bucket{Cap: tt.capacity * limit.Token, Rate: limit.Rate{Micro: tt.rate}}
		if got := New(10, tt.since).look(&c, now).Tokens / limit.Token; got != tt.want {
			t.Errorf("%s: %d left, want %d", tt.name, got, tt.want)
		}
	}
}

// TestHeldOfALimitThatHasChanged is about what the store is told of keys that it may have no record of. A client with 40
// left two seconds before its limit got slower has all by now, and one that spent all since has what it earned.
func TestHeldOfALimitThatHasChanged(t *testing.T) {
	now := hour
	table := New(10, 0)
	fast := bucket
	fast.Rate.Micro *= 10
	answered(table, fast, 1, 40, now-3*second)
	answered(table, fast, 2, 0, now-second)
	for n, want := range map[uint64]limit.Tokens{1: 100, 2: 10, 3: 100} {
		c := slowed(n, 1, now)
		if held, known := table.Held(&c, now); held/limit.Token != want || !known {
			t.Errorf("key %d: %d held (known %v), want %d", n, held/limit.Token, known, want)
		}
		c.Foreign = true
		if held, known := table.Held(&c, now); known {
			t.Errorf("key %d: %d held, where another daemon may have spent", n, held)
		}
	}
	owes, takes := slowed(1, 30, now), slowed(3, 30, now)
	table.Decide([]Charge{owes}, false, now, make([]limit.Outcome, 1))
	if held, _ := table.Held(&owes, now); held != 100*limit.Token {
		t.Errorf("%d held of a key that owes 30 of 100: the call takes them off besides", held)
	}
	var lost Ticket
	table.Sent(&lost, &takes, now)
	table.Lost(&lost, &takes, now+second)
	if held, _ := table.Held(&takes, now); held != 70*limit.Token {
		t.Errorf("%d held of 100, of which a lost call may have taken 30", held)
	}
	table.Forget(owes.Key, now)
	if held, known := table.Held(&owes, now); known {
		t.Errorf("%d held while the share changes", held)
	}
}

// TestHeldOfAWindowThatHasGrown: nothing is in use of a key that was not used, and of another one what the store
// reported.
func TestHeldOfAWindowThatHasGrown(t *testing.T) {
	now := hour + 30*second
	table := New(10, 0)
	answered(table, counting, 1, 60, now-20*second)
	for n, want := range map[uint64]limit.Tokens{1: 40, 2: 0} {
		c := charge(counting, n, 1, now)
		c.Revised = now - 10*second
		if used, known := table.Held(&c, now); used/limit.Token != want || !known {
			t.Errorf("key %d: %d in use (known %v), want %d", n, used/limit.Token, known, want)
		}
	}
	c := charge(counting, 2, 1, now)
	if used, known := New(10, now-10*second).Held(&c, now); known {
		t.Errorf("%d in use of a window that began before the table", used)
	}
}
