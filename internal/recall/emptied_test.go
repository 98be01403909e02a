package recall

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

// emptied is a table of a daemon that has run for an hour and holds the session, whose store has just lost its
// contents, after the store answered of key 1 that so many tokens were left.
func emptied(l limit.Limit, left int, now budget.Instant) *Table {
	table := New(10, now-3600*second)
	answered(table, l, 1, left, now-second)
	table.HoldsUntil(now + second)
	table.Emptied(now)
	return table
}

// memory is what a table remembers of a key, whole tokens; false if nothing.
func memory(table *Table, l limit.Limit, n uint64, now budget.Instant) (tokens, used int64, known bool) {
	c := charge(l, n, 0, now)
	m := table.Memory(&c, now)
	if m == nil {
		return 0, 0, false
	}
	return int64(m.Tokens / limit.Token), int64(m.Used / limit.Token), true
}

const hour = 3600 * second

// TestEmptiedStoreIsToldWhatIsKnown: what the store said last, with what was earned since; a key that nobody has asked
// about is full, or unused.
func TestEmptiedStoreIsToldWhatIsKnown(t *testing.T) {
	for _, is := range []struct {
		limit        limit.Limit
		key          uint64
		tokens, used int64
	}{{bucket, 1, 50, 0}, {bucket, 2, 100, 0}, {counting, 1, 0, 60}, {counting, 2, 0, 0}} {
		table := emptied(is.limit, 40, hour)
		if tokens, used, known := memory(table, is.limit, is.key, hour); tokens != is.tokens || used != is.used || !known {
			t.Errorf("key %d of a %v: %d tokens, %d in use (%v), want %d, %d", is.key, is.limit.Algorithm, tokens, used, known, is.tokens, is.used)
		}
	}
}

// TestEmptiedStoreOfAnother: a daemon that does not hold the session, beside another one, or whose rights were others'
// until just now, tells its store nothing of what it knew.
func TestEmptiedStoreOfAnother(t *testing.T) {
	table := New(10, 0)
	answered(table, counting, 1, 40, hour-second)
	table.HoldsUntil(hour)
	table.Emptied(hour)
	if _, _, known := memory(table, counting, 1, hour); known {
		t.Error("without the session")
	}
	table = emptied(counting, 40, hour)
	for why, change := range map[string]func(*Charge){
		"beside another daemon":    func(c *Charge) { c.Foreign = true },
		"of rights that came late": func(c *Charge) { c.From = hour },
	} {
		c := charge(counting, 1, 0, hour)
		change(&c)
		if m := table.Memory(&c, hour); m != nil {
			t.Errorf("%s: %+v", why, *m)
		}
	}
	if _, _, known := memory(New(10, 0), counting, 1, hour); known {
		t.Error("of contents that nothing was lost of")
	}
}

// TestCallsUnderWayCountAsTaken: the earlier contents may have been charged by calls that were under way, or had no
// answer. Of a limit that counts they are owed, and count in the window in which the store hears of them.
func TestCallsUnderWayCountAsTaken(t *testing.T) {
	for _, l := range []limit.Limit{bucket, counting} {
		table, now := New(10, 0), hour
		answered(table, l, 1, 40, now)
		var underWay, lost Ticket
		c := charge(l, 1, 3, now)
		table.Sent(&underWay, &c, now)
		table.Sent(&lost, &c, now)
		table.Lost(&lost, &c, now+second)
		table.HoldsUntil(now + second)
		table.Emptied(now)
		table.NotSent(&underWay, &c) // too late
		tokens, used, _ := memory(table, l, 1, now)
		owed := table.Carry(&c, table.Call(), now).Amount / limit.Token
		if want := int64(40 - 3 - 3); l.Algorithm == limit.TokenBucket && (tokens != want || owed != 0) {
			t.Errorf("a bucket: %d tokens, %d owed; want %d", tokens, owed, want)
		}
		if l.Algorithm.Counts() && (used != 60 || owed != 6) {
			t.Errorf("a window: %d in use, %d owed; want 60, 6", used, owed)
		}
	}
}

// TestCallsUnderWayMayHaveTakenWhatWasEarnedSince: a call without an answer may have been decided at any time before
// the contents were lost. It may have taken what the bucket had earned by then.
func TestCallsUnderWayMayHaveTakenWhatWasEarnedSince(t *testing.T) {
	for _, is := range []struct{ taken, want int }{{3, 47}, {30, 20}, {1000, 0}} {
		table, now := New(10, 0), hour
		answered(table, bucket, 1, 40, now)
		var lost Ticket
		c := charge(bucket, 1, is.taken, now)
		table.Sent(&lost, &c, now)
		table.Lost(&lost, &c, now+second)
		table.HoldsUntil(now + 3*second)
		now += second // which brings 10
		table.Emptied(now)
		if tokens, _, _ := memory(table, bucket, 1, now); tokens != int64(is.want) {
			t.Errorf("the store is told of %d tokens, want %d", tokens, is.want)
		}
		if n := burst(table, bucket, 1, now+second); n != is.want+10 {
			t.Errorf("a call of %d: %d are admitted a second later, want %d", is.taken, n, is.want+10)
		}
	}
}

// TestWhatIsOwedIsCarried: what was admitted without the store is not in what it is told; the call carries it.
func TestWhatIsOwedIsCarried(t *testing.T) {
	for _, l := range []limit.Limit{bucket, counting} {
		table := emptied(l, 40, hour)
		was, _, _ := memory(table, l, 1, hour)
		out := make([]limit.Outcome, 1)
		if !table.Decide([]Charge{charge(l, 1, 7, hour)}, false, hour, out) {
			t.Fatalf("%+v", out[0])
		}
		c := charge(l, 1, 0, hour)
		tokens, used, _ := memory(table, l, 1, hour)
		if owed := table.Carry(&c, table.Call(), hour).Amount; owed != 7*limit.Token || tokens != was || l.Algorithm.Counts() && used != 60 {
			t.Errorf("a %v: %d owed, %d tokens of %d, %d in use", l.Algorithm, owed/limit.Token, tokens, was, used)
		}
		// Nobody knows the clock of new contents: then all that was admitted here counts.
		c.StoreNow, c.StoreLatest = 0, limit.MaxExact
		if owed := table.Carry(&c, table.Call(), hour+second).Amount; owed != 7*limit.Token {
			t.Errorf("a %v, without a clock: %d owed", l.Algorithm, owed/limit.Token)
		}
	}
}

// TestWhileAShareChanges: a call that is sent before the store has answered tells of the key as it was before, if the
// store still has the contents of then; of a later loss nobody knows whether the share had changed.
func TestWhileAShareChanges(t *testing.T) {
	for _, l := range []limit.Limit{bucket, counting} {
		table := emptied(l, 40, hour)
		before, usedBefore, _ := memory(table, l, 1, hour)
		table.Forget(keyOf(1), hour)
		if tokens, used, known := memory(table, l, 1, hour); tokens != before || used != usedBefore || !known {
			t.Errorf("a %v on its way: %d of %d tokens, %d in use (%v)", l.Algorithm, tokens, before, used, known)
		}
		table.Emptied(hour)
		if tokens, _, known := memory(table, l, 1, hour); tokens > 0 || known && l.Algorithm.Counts() {
			t.Errorf("a %v of contents after those: %d tokens (%v)", l.Algorithm, tokens, known)
		}
		table = emptied(l, 40, hour)
		table.Forget(keyOf(1), hour)
		if l.Algorithm.Counts() {
			table.TellUse(&Charge{Key: keyOf(1), Limit: l}, 5*limit.Token, 60*limit.Token, int64(hour)/1000, hour)
		} else {
			table.Tell(keyOf(1), 5*limit.Token, l.Rate.Micro, int64(hour)/1000, hour)
		}
		table.Emptied(hour)
		if tokens, used, _ := memory(table, l, 1, hour); tokens+used != 5 && used != 60 {
			t.Errorf("a %v whose share has changed: %d tokens, %d in use", l.Algorithm, tokens, used)
		}
	}
}

// TestUnknownUseIsNotRemembered: the store blocks a record because it does not know itself what is in use.
func TestUnknownUseIsNotRemembered(t *testing.T) {
	table, now := New(10, 0), hour
	var k Ticket
	c := charge(counting, 1, 1, now)
	table.Sent(&k, &c, now)
	table.Answered(&k, &c, false, limit.Outcome{Tokens: -limit.MaxTokens, Reset: time.Minute.Microseconds()}, Debt{}, int64(now)/1000, now)
	table.HoldsUntil(now + second)
	table.Emptied(now)
	if _, _, known := memory(table, counting, 1, now); known {
		t.Error("what is in use is known")
	}
}

// TestUnusedByItsOwnWindow: a key that nobody has asked about since before the present window began is unused.
func TestUnusedByItsOwnWindow(t *testing.T) {
	began := 600 * second // a window of a minute begins
	for _, is := range []struct {
		algorithm limit.Algorithm
		since     budget.Instant // the start of the daemon
		unused    bool
	}{
		{limit.FixedWindow, began, true}, {limit.FixedWindow, began + second, false},
		{limit.SlidingCounter, began - 60*second, true}, {limit.SlidingCounter, began - 59*second, false},
		{limit.SlidingLog, began - 30*second, true}, {limit.SlidingLog, began - 29*second, false},
	} {
		l, now := counting, began+30*second
		l.Algorithm = is.algorithm
		table := New(10, is.since)
		table.HoldsUntil(now + second)
		table.Emptied(now)
		if _, used, known := memory(table, l, 1, now); known != is.unused || used != 0 {
			t.Errorf("a %v, %v after the start: unused %v", l.Algorithm, now.Sub(is.since), known)
		}
	}
}

// TestCallsTakeNoMoreThanThereIs: an outage of many calls without an answer leaves no debt behind it.
func TestCallsTakeNoMoreThanThereIs(t *testing.T) {
	table, now := New(10, 0), hour
	answered(table, bucket, 1, 40, now)
	var lost Ticket
	c := charge(bucket, 1, 500, now)
	table.Sent(&lost, &c, now)
	table.Lost(&lost, &c, now+second)
	table.HoldsUntil(now + second)
	table.Emptied(now)
	if tokens, _, _ := memory(table, bucket, 1, now); tokens != 0 {
		t.Errorf("%d tokens, want 0", tokens)
	}
}

// TestOtherContentsWithAClockThatIsNotReadYet: until the clock of the store with other contents has been read, a limit
// that counts goes on by the clock before; but nothing that was admitted is forgotten by that, and the store is told
// nothing by it of keys that nobody asked about.
func TestOtherContentsWithAClockThatIsNotReadYet(t *testing.T) {
	table, began := New(10, 0), 600*second // a window of a minute begins
	answered(table, counting, 1, 60, began+10*second)
	table.HoldsUntil(began + 200*second)
	if table.Decide([]Charge{charge(counting, 1, 5, began+19*second)}, false, began+19*second, make([]limit.Outcome, 1)); !table.Owes(keyOf(1)) {
		t.Fatal("nothing is owed")
	}
	table.Emptied(began + 20*second)
	old := charge(counting, 1, 1, began+21*second)
	old.OldClock = true
	admitted := 0
	for table.Decide([]Charge{old}, false, began+21*second, make([]limit.Outcome, 1)) {
		admitted++
	}
	if admitted != 55 {
		t.Errorf("%d admitted, 55 are left", admitted)
	}
	next := charge(counting, 1, 0, began+61*second)
	next.OldClock = true
	if table.wouldAdmit(&next, began+61*second); table.Carry(&next, table.Call(), began+61*second).Amount != 60*limit.Token {
		t.Error("what was admitted is forgotten by a clock that may be another one")
	}
	fresh := New(10, 0)
	fresh.HoldsUntil(began + 200*second)
	fresh.Emptied(70 * second)
	untouched := charge(counting, 2, 1, 71*second)
	if untouched.OldClock = true; fresh.Memory(&untouched, 71*second) != nil {
		t.Error("the store is told by a clock that may be another one that nothing is in use")
	}
}

// What an elastic key earned beyond its share is told apart, because a strict one may not keep it.
func TestEmptiedStoreIsToldOfExtraTokens(t *testing.T) {
	for left, want := range map[int]limit.Tokens{80: 30 * limit.Token, 50: 0, 20: 0} {
		table, c := emptied(bucket, left, hour), charge(bucket, 1, 0, hour)
		c.Bucket.Cap, c.Extra = 50*limit.Token, true
		if m := table.Memory(&c, hour); m == nil || m.Extra != want {
			t.Errorf("%d left of a share of 50: %+v, extra are %d", left, m, want/limit.Token)
		}
		if c.Extra = false; table.Memory(&c, hour).Extra != 0 {
			t.Errorf("%d left of a strict key's share of 50: some are extra", left)
		}
	}
}

// Calls in flight may have taken extra tokens of the contents that are lost.
func TestCallsInFlightTakeExtraTokens(t *testing.T) {
	table, c := New(10, 0), charge(bucket, 1, 45, hour)
	answered(table, bucket, 1, 80, hour)
	c.Bucket.Cap, c.Extra = 20*limit.Token, true
	var inFlight Ticket
	table.Sent(&inFlight, &c, hour)
	table.HoldsUntil(hour + second)
	table.Emptied(hour)
	if m := table.Memory(&c, hour); m == nil || m.Extra != 15*limit.Token {
		t.Errorf("of 80 a call may have taken 45, and 20 are the share: %+v, extra are 15", m)
	}
}

// A daemon admits requests of a counting limit by itself, and has a call in flight, when its store loses its contents.
// What the call may have taken is in use, from now on, and owed beside what was admitted. Nothing is admitted after a share
// change in which the store cannot say what is in use. When it can, what is owed still counts.
func TestCallsInFlightBesideAdmissionsOfACountingLimit(t *testing.T) {
	log := counting
	log.Algorithm = limit.SlidingLog
	for _, l := range []limit.Limit{counting, log} {
		inFlightBesideAdmissions(t, l)
	}
}

func inFlightBesideAdmissions(t *testing.T, l limit.Limit) {
	t.Helper()
	table, now := New(10, 0), hour
	answered(table, l, 1, 40, now)
	if !table.Decide([]Charge{charge(l, 1, 7, now)}, false, now, make([]limit.Outcome, 1)) {
		t.Fatal("40 are left, and 7 are not admitted")
	}
	var inFlight Ticket
	c := charge(l, 1, 3, now)
	table.Sent(&inFlight, &c, now)
	table.HoldsUntil(now + second)
	table.Emptied(now)
	if _, used, known := memory(table, l, 1, now); !known || used != 60 {
		t.Errorf("%v: the store is told that %d are in use, that is known: %v", l.Algorithm, used, known)
	}
	if owed := table.Owed(c.Key, now) / limit.Token; owed != 10 {
		t.Errorf("%v: %d are owed, 7 were admitted and the call may have taken 3", l.Algorithm, owed)
	}
	unread := charge(l, 1, 31, now)
	if unread.OldClock = true; table.wouldAdmit(&unread, now) {
		t.Error(l.Algorithm, "31 of the 30 that are left are admitted while the clock of the new contents is not read")
	}
	table.Forget(c.Key, now)
	if n := burst(table, l, 1, now); n != 0 {
		t.Errorf("%v: %d admitted while a share changes", l.Algorithm, n)
	}
	table.Forget(c.Key, now)
	table.TellUse(&c, 0, limit.MaxTokens, int64(now)/1000+1, now)
	if n := burst(table, l, 1, now); n != 0 {
		t.Errorf("%v: %d admitted of rights that the store does not know", l.Algorithm, n)
	}
	table.Forget(c.Key, now)
	table.TellUse(&c, 40*limit.Token, 60*limit.Token, int64(now)/1000+2, now)
	if n := burst(table, l, 1, now); n != 30 {
		t.Errorf("%v: %d admitted, want 40 less the 7 admitted and the 3 of the call", l.Algorithm, n)
	}
}

// TestNothingIsGivenOutOfUseThatIsNotKnown: while a key owes something, the store denies a call, because it does not know
// what is in use. Then its share changes, and the store still does not know. What is owed is not all that is in use.
func TestNothingIsGivenOutOfUseThatIsNotKnown(t *testing.T) {
	table, now := New(10, 0), hour
	answered(table, counting, 1, 40, now)
	if !table.Decide([]Charge{charge(counting, 1, 7, now)}, false, now, make([]limit.Outcome, 1)) {
		t.Fatal("40 are left, and 7 are not admitted")
	}
	var k Ticket
	c, stamp := charge(counting, 1, 1, now), int64(now)/1000
	table.Sent(&k, &c, now)
	table.Answered(&k, &c, false, limit.Outcome{Tokens: -limit.MaxTokens, Reset: 60_000_000}, Debt{}, stamp+1, now)
	if n := burst(table, counting, 1, now); n != 0 {
		t.Errorf("%d admitted after the denial", n)
	}
	table.Forget(c.Key, now)
	table.TellUse(&c, 0, limit.MaxTokens, stamp+2, now)
	if n := burst(table, counting, 1, now); n != 0 {
		t.Errorf("%d admitted after the change", n)
	}
}

// TestUseThatIsNotKnownBlocksTheNextWindow: the store does not know what is in use, and says so in its answer to a call, to a
// share change or to a settlement. It admits nothing until the end of the next window, and nor does memory.
func TestUseThatIsNotKnownBlocksTheNextWindow(t *testing.T) {
	stamp, c := int64(hour)/1000, charge(counting, 1, 0, hour)
	for name, tell := range map[string]func(*Table, *Ticket){
		"call": func(t *Table, k *Ticket) {
			t.Answered(k, &c, false, limit.Outcome{Tokens: -limit.MaxTokens, Reset: 60_000_000}, Debt{}, stamp, hour)
		},
		"change": func(t *Table, _ *Ticket) {
			t.Forget(c.Key, hour)
			t.TellUse(&c, 0, limit.MaxTokens, stamp, hour)
		},
		"settlement": func(t *Table, k *Ticket) { t.Adjusted(k, &c, 0, limit.MaxTokens, Debt{}, stamp, hour) },
	} {
		table := New(10, 0)
		answered(table, counting, 1, 100, hour-second)
		var k Ticket
		table.Sent(&k, &c, hour)
		tell(table, &k)
		for _, after := range []budget.Instant{second, 61 * second, 119 * second} {
			if n := burst(table, counting, 1, hour+after); n != 0 {
				t.Errorf("%s: %d admitted %d s later, want 0", name, n, after/second)
			}
		}
		if n := burst(table, counting, 1, hour+181*second); n != 100 {
			t.Errorf("%s: %d admitted when nothing counts any more, want 100", name, n)
		}
	}
}

// TestCallsUnderWayStayOwed: what they may have taken of a counting limit is neither admitted without the
// store nor forgotten by a request that is decided so.
func TestCallsUnderWayStayOwed(t *testing.T) {
	table, now := New(10, 0), hour
	answered(table, counting, 1, 40, now)
	var underWay Ticket
	c := charge(counting, 1, 30, now)
	table.Sent(&underWay, &c, now)
	table.HoldsUntil(now + second)
	table.Emptied(now)
	if c = charge(counting, 1, 11, now); table.wouldAdmit(&c, now) {
		t.Error("11 of the 10 that are left are admitted")
	}
	if owed := table.Carry(&c, table.Call(), now).Amount / limit.Token; owed != 30 {
		t.Errorf("%d are owed of 30", owed)
	}
}
