package recall

import (
	"encoding/binary"
	"testing"
	"time"

	"pgregory.net/rapid"

	"aliquot/budget"
	"aliquot/limit"
)

const second = budget.Instant(time.Second)

// bucket is a limit of 100 tokens that earns 10 a second, and counting one of 100 a window of a minute.
var (
	bucket   = limit.Limit{Capacity: 100 * limit.Token, Rate: limit.Rate{Micro: 10 * int64(limit.Token)}}
	counting = limit.Limit{Algorithm: limit.FixedWindow, Capacity: 100 * limit.Token, Window: time.Minute}
)

func keyOf(n uint64) (key budget.KeyID) {
	binary.BigEndian.PutUint64(key.Hash[:], n)
	return key
}

// charge is for key n of a limit that this region has all of, whose store's clock is this daemon's.
func charge(l limit.Limit, n uint64, cost int, now budget.Instant) Charge {
	return Charge{
		Key: keyOf(n), Limit: l, Cost: limit.Tokens(cost) * limit.Token, StoreNow: int64(now) / 1000, StoreLatest: int64(now) / 1000,
		Bucket: limit.Bucket{Cap: l.Capacity, Rate: l.Rate}, Full: time.Minute, Room: Room{Least: l.Capacity, Most: l.Capacity},
	}
}

// burst is how many requests for one token are admitted of a key.
func burst(t *Table, l limit.Limit, n uint64, now budget.Instant) (admitted int) {
	for c := charge(l, n, 1, now); t.Decide([]Charge{c}, false, now, make([]limit.Outcome, 1)); admitted++ {
	}
	return admitted
}

// wouldAdmit reports whether a charge would be admitted now.
func (t *Table) wouldAdmit(c *Charge, now budget.Instant) bool { return t.holds(c, t.look(c, now)) }

// answered tells the table that the store had so many tokens left after a call.
func answered(t *Table, l limit.Limit, n uint64, left int, now budget.Instant) {
	var k Ticket
	c := charge(l, n, 1, now)
	t.Sent(&k, &c, now)
	t.Answered(&k, &c, true, limit.Outcome{Tokens: limit.Tokens(left) * limit.Token, Bucket: c.Bucket}, Debt{}, int64(now)/1000, now)
}

// TestWorkedNumber is the one of the package's comment.
func TestWorkedNumber(t *testing.T) {
	table := New(10, 0)
	answered(table, bucket, 1, 60, second)
	var lost Ticket
	now := 3 * second
	sent := now - second/10
	c := charge(bucket, 1, 1, sent)
	table.Sent(&lost, &c, sent)
	c.Own = &lost
	out := make([]limit.Outcome, 1)
	table.Lost(&lost, &c, sent+second/2)
	if !table.Decide([]Charge{c}, false, now, out) || out[0].Tokens != 79*limit.Token {
		t.Fatalf("the caller of the lost call: %+v", out[0])
	}
	for range 5 {
		c := charge(bucket, 1, 1, now)
		if !table.Decide([]Charge{c}, false, now, out) {
			t.Fatalf("%+v", out[0])
		}
	}
	if out[0].Tokens != 74*limit.Token {
		t.Errorf("%d left, want 74", out[0].Tokens/limit.Token)
	}
	if owed := table.Carry(&c, table.Call(), now).Amount; owed != 6*limit.Token {
		t.Errorf("%d owed, want 6", owed/limit.Token)
	}
}

// TestUntouchedKeysAreFull: a key that nobody has asked about for as long as its limit takes to fill is
// full, before that it holds what it has earned, and one that was asked about holds what is left.
func TestUntouchedKeysAreFull(t *testing.T) {
	table := New(10, 0)
	if n := burst(table, bucket, 1, 2*second); n != 20 {
		t.Errorf("2 s after the start: %d, earned are 20", n)
	}
	if n := burst(table, bucket, 2, 60*second); n != 100 {
		t.Errorf("a minute after the start: %d of 100", n)
	}
	answered(table, bucket, 3, 5, 60*second)
	if n := burst(table, bucket, 3, 61*second); n != 15 {
		t.Errorf("a second after the store said 5: %d, want 15", n)
	}
	table.Void(70 * second)
	if n := burst(table, bucket, 4, 71*second); n != 10 {
		t.Errorf("a second after the store lost its contents: %d, want 10", n)
	}
}

// TestLimitsThatCount: what was in use of a window stays in use until its end, what is admitted here counts, and
// the next window is whole.
func TestLimitsThatCount(t *testing.T) {
	table := New(10, 0)
	began := 600 * second // a window of a minute begins
	answered(table, counting, 1, 70, began+10*second)
	if n := burst(table, counting, 1, began+20*second); n != 70 {
		t.Errorf("%d admitted where 70 were left", n)
	}
	if n := burst(table, counting, 1, began+59*second); n != 0 {
		t.Errorf("%d admitted of a window that is used up", n)
	}
	if n := burst(table, counting, 1, began+60*second); n != 100 {
		t.Errorf("%d of 100 admitted in the next window", n)
	}
	if n := burst(table, counting, 2, began+20*second); n != 100 {
		t.Errorf("%d of 100 admitted of a key that nobody has asked about", n)
	}
}

// TestAllOrNothing: a request that one limit denies is charged nowhere.
func TestAllOrNothing(t *testing.T) {
	table, now := New(10, 0), 60*second
	answered(table, bucket, 1, 0, now)
	out := make([]limit.Outcome, 2)
	if table.Decide([]Charge{charge(bucket, 2, 1, now), charge(bucket, 1, 1, now)}, false, now, out) {
		t.Fatal("admitted")
	}
	if n := burst(table, bucket, 2, now); n != 100 {
		t.Errorf("%d of 100 left of the limit that held", n)
	}
	if table.Decide([]Charge{charge(bucket, 3, 1, now)}, true, now, out) || table.Owing() != 1 {
		t.Errorf("a request that is denied elsewhere is owed for: %d keys owe", table.Owing())
	}
}

// TestDebts: all calls under way carry what is owed, one that succeeded has paid, and a debt of a bucket that is full
// by now is none.
func TestDebts(t *testing.T) {
	table, now := New(10, 0), 60*second
	c := charge(bucket, 1, 3, now)
	key := c.Key
	table.Decide([]Charge{c}, false, now, make([]limit.Outcome, 1))
	first, second := table.Call(), table.Call()
	carried := table.Carry(&c, first, now)
	if carried.Amount != 3*limit.Token || !table.Settling(key) {
		t.Fatalf("%+v carried, settling %v", carried, table.Settling(key))
	}
	if got := table.Carry(&c, first, now); got.Amount != 0 {
		t.Errorf("a call carries %d twice", got.Amount)
	}
	too := table.Carry(&c, second, now)
	if too.Amount != 3*limit.Token {
		t.Errorf("another call carries %d", too.Amount)
	}
	table.Decide([]Charge{c}, false, now, make([]limit.Outcome, 1))
	table.Paid(key, carried, true)
	table.Paid(key, too, true)
	if got := table.Carry(&c, table.Call(), now); got.Amount != 3*limit.Token {
		t.Errorf("%d owed; what was admitted while two calls paid the same debt is 3", got.Amount)
	} else {
		table.Paid(key, got, true)
	}
	if table.Owing() != 0 || table.Settling(key) {
		t.Errorf("%d keys owe, settling %v, when all is paid", table.Owing(), table.Settling(key))
	}
	table.Decide([]Charge{c}, false, now, make([]limit.Outcome, 1))
	if got := table.Carry(&c, table.Call(), now.Add(2*time.Minute)); got.Amount != 0 || table.Owing() != 0 {
		t.Errorf("%d owed of a bucket that is full", got.Amount)
	}
}

// TestAnswersOfOneCall: the store decides several requests for a key in one call, at one time of its clock. What the
// last of them left counts.
func TestAnswersOfOneCall(t *testing.T) {
	for name, l := range map[string]limit.Limit{"bucket": bucket, "fixed window": counting} {
		table, now := New(10, 0), 60*second
		answered(table, l, 1, 100, now-second)
		c := charge(l, 1, 10, now)
		var tickets [3]Ticket
		for i := range tickets {
			table.Sent(&tickets[i], &c, now)
		}
		for i := range tickets {
			out := limit.Outcome{Tokens: limit.Tokens(90-10*i) * limit.Token, Bucket: c.Bucket}
			table.Answered(&tickets[i], &c, true, out, Debt{}, int64(now)/1000, now+second/1000)
		}
		if n := burst(table, l, 1, now+second/1000); n != 70 {
			t.Errorf("%s: %d admitted where the store has 70 left", name, n)
		}
	}
}

// TestALongOutageOfASlowClientCostsNothing: a bucket of 100 tokens earns 10 a second, and its client spends 5 a
// second of it for 40 s without the store. The store's bucket is full all the time, so the client's 200 tokens are not
// missing there: no more than the 5 of the last second are.
func TestALongOutageOfASlowClientCostsNothing(t *testing.T) {
	table, now, out := New(10, 0), 60*second, make([]limit.Outcome, 1)
	answered(table, bucket, 1, 100, now)
	for range 40 {
		now += second
		if c := charge(bucket, 1, 5, now); !table.Decide([]Charge{c}, false, now, out) {
			t.Fatalf("denied: %+v", out[0])
		}
	}
	c := charge(bucket, 1, 1, now)
	if owed := table.Carry(&c, table.Call(), now).Amount; owed != 5*limit.Token {
		t.Errorf("%d owed, want 5", owed/limit.Token)
	}
}

// TestALostCallLeavesTheDebt: with a call for 60 tokens that the store may have decided, or may still decide, its bucket
// may have been full later than what is left says. So all of what was admitted without the store is owed.
func TestALostCallLeavesTheDebt(t *testing.T) {
	for _, until := range []budget.Instant{second / 2, 60 * second} {
		table, now, out := New(10, 0), 60*second, make([]limit.Outcome, 1)
		answered(table, bucket, 1, 100, now)
		var lost Ticket
		c := charge(bucket, 1, 60, now)
		table.Sent(&lost, &c, now)
		table.Lost(&lost, &c, now+until)
		for range 6 {
			now += second
			if c := charge(bucket, 1, 5, now); !table.Decide([]Charge{c}, false, now, out) {
				t.Fatalf("denied: %+v", out[0])
			}
		}
		c = charge(bucket, 1, 1, now)
		if owed := table.Carry(&c, table.Call(), now).Amount; owed != 30*limit.Token {
			t.Errorf("%d owed, want 30", owed/limit.Token)
		}
	}
}

// TestAnUnknownCapacityLeavesTheDebt: while the share changes nobody knows how much the store's bucket may hold.
func TestAnUnknownCapacityLeavesTheDebt(t *testing.T) {
	table, now, out := New(10, 0), 60*second, make([]limit.Outcome, 1)
	answered(table, bucket, 1, 100, now)
	for range 20 {
		now += second
		if c := charge(bucket, 1, 5, now); !table.Decide([]Charge{c}, false, now, out) {
			t.Fatalf("denied: %+v", out[0])
		}
	}
	table.Forget(keyOf(1), now)
	now += 20 * second
	c := charge(bucket, 1, 1, now)
	if owed := table.Carry(&c, table.Call(), now).Amount; owed != 100*limit.Token {
		t.Errorf("%d owed, want 100", owed/limit.Token)
	}
}

// TestTableIsBounded: a full table drops keys that owe nothing, and counts on nothing of keys that it may have
// dropped.
func TestTableIsBounded(t *testing.T) {
	table := New(100, 0)
	for n := range uint64(100) {
		answered(table, bucket, n, 0, 60*second)
	}
	answered(table, bucket, 1000, 0, 61*second)
	if table.Len() != 100 {
		t.Errorf("%d keys", table.Len())
	}
	if n := burst(table, bucket, 2000, 62*second); n != 20 {
		t.Errorf("%d admitted of a key that may have been used up 2 s ago", n)
	}
	for n := range uint64(300) {
		c := charge(bucket, 5000+n, 1, 200*second)
		table.Decide([]Charge{c}, false, 200*second, make([]limit.Outcome, 1))
	}
	if table.Len() > 100 || table.Owing() > 100 {
		t.Errorf("%d keys, %d of them owe", table.Len(), table.Owing())
	}
}

// TestNoOutageGivesAnything: whatever becomes of calls, and however often their callers are admitted from memory
// instead, all that clients get of a key is what one bucket holds.
func TestNoOutageGivesAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { newOutage(t).run() })
}

// outage is a store with one bucket, and a daemon whose calls are delayed, lost, and answered late.
type outage struct {
	t      *rapid.T
	now    budget.Instant
	table  *Table
	record limit.Record
	ideal  limit.Record // what one bucket holds for all that clients really got
	calls  []*call
}

type call struct {
	ticket     Ticket
	charge     Charge
	debit      Debt
	deadline   budget.Instant
	executed   bool
	allowed    bool
	out        limit.Outcome
	at         int64
	fromMemory bool // its caller was admitted from memory
}

func newOutage(t *rapid.T) *outage {
	const stamp = 1
	full := limit.Record{Stamp: stamp, At: 1, Tokens: bucket.Capacity}
	return &outage{t: t, now: 100 * second, table: New(4, 0), record: full, ideal: full}
}

func (o *outage) view() limit.View {
	return limit.View{Phase: limit.Floor, Stamp: 1, Floor: limit.Bucket{Cap: bucket.Capacity, Rate: bucket.Rate}}
}

// got is what a client got; the ideal bucket must hold it.
func (o *outage) got(cost limit.Tokens) {
	records, out := []limit.Record{o.ideal}, make([]limit.Outcome, 1)
	if !limit.Take(records, []limit.View{o.view()}, cost, int64(o.now)/1000, out) {
		o.t.Fatalf("%d admitted where one bucket holds %d", cost, out[0].Tokens)
	}
	o.ideal = records[0]
}

func (o *outage) run() {
	for range rapid.IntRange(1, 80).Draw(o.t, "steps") {
		switch rapid.IntRange(0, 5).Draw(o.t, "step") {
		case 0:
			o.now += budget.Instant(rapid.IntRange(1, 2000).Draw(o.t, "ms")) * second / 1000
		case 1:
			o.send()
		case 2:
			o.execute()
		case 3:
			o.land()
		default:
			o.decide()
		}
	}
}

func (o *outage) send() {
	c := &call{charge: charge(bucket, 1, rapid.IntRange(1, 60).Draw(o.t, "cost"), o.now), deadline: o.now + second/2}
	c.debit = o.table.Carry(&c.charge, o.table.Call(), o.now)
	o.table.Sent(&c.ticket, &c.charge, o.now)
	o.calls = append(o.calls, c)
}

func (o *outage) pick(of func(*call) bool) *call {
	var some []*call
	for _, c := range o.calls {
		if of(c) {
			some = append(some, c)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some[rapid.IntRange(0, len(some)-1).Draw(o.t, "call")]
}

// execute has the store decide a call in time, answered or not.
func (o *outage) execute() {
	c := o.pick(func(c *call) bool { return !c.executed && o.now <= c.deadline })
	if c == nil {
		return
	}
	v := o.view()
	v.Debit = c.debit.Amount
	records, out := []limit.Record{o.record}, make([]limit.Outcome, 1)
	if rapid.Bool().Draw(o.t, "later") { // else at the time of the one before, as those of one call are
		o.now += 1000
	}
	c.executed, c.at = true, int64(o.now)/1000
	c.allowed = limit.Take(records, []limit.View{v}, c.charge.Cost, c.at, out)
	o.record, c.out = records[0], out[0]
	if c.allowed && !c.fromMemory {
		o.got(c.charge.Cost)
	}
}

// land ends a call for the daemon: with its answer, or without one.
func (o *outage) land() {
	c := o.pick(func(c *call) bool { return c.ticket.state == underway })
	if c == nil {
		return
	}
	if c.executed && rapid.Bool().Draw(o.t, "answered") {
		o.table.Answered(&c.ticket, &c.charge, c.allowed, c.out, c.debit, c.at, o.now)
		return
	}
	o.table.Lost(&c.ticket, &c.charge, c.deadline)
	o.table.Paid(c.charge.Key, c.debit, false)
}

// decide admits from memory, a request of its own or the one of a call that was given up.
func (o *outage) decide() {
	own := o.pick(func(c *call) bool { return !c.fromMemory && c.ticket.state != refused })
	one := charge(bucket, 1, rapid.IntRange(1, 60).Draw(o.t, "cost"), o.now)
	if own != nil && rapid.Bool().Draw(o.t, "own") {
		one = own.charge
		one.Own = &own.ticket
	} else {
		own = nil
	}
	if !o.table.Decide([]Charge{one}, false, o.now, make([]limit.Outcome, 1)) {
		return
	}
	counted := own != nil && own.executed && own.allowed // the client has it already
	if own != nil {
		own.fromMemory = true
	}
	if !counted {
		o.got(one.Cost)
	}
}

// TestNoOutageGivesWindows: what clients get of any window of the store's clock, from the store before an outage and from
// memory in it, is at most the limit, wherever that clock is between its bounds.
func TestNoOutageGivesWindows(t *testing.T) {
	for _, algorithm := range limit.Algorithms() {
		if !algorithm.Counts() || algorithm == limit.Concurrency {
			continue
		}
		t.Run(algorithm.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				l := limit.Limit{Algorithm: algorithm, Capacity: 10 * limit.Token, Window: 10 * time.Second}
				view := limit.View{Algorithm: algorithm, Window: l.Window.Microseconds(), Phase: limit.Floor, Stamp: 1, Floor: limit.Bucket{Cap: l.Capacity}}
				table, real := New(10, 0), limit.Record{Stamp: 1, At: 1}
				take := func(cost limit.Tokens, at int64) (limit.Outcome, bool) {
					records, out := []limit.Record{real}, make([]limit.Outcome, 1)
					ok := limit.Take(records, []limit.View{view}, cost, at, out)
					real = records[0]
					return out[0], ok
				}
				now, store := 1000*second, int64(1_000_000_000)
				for range rapid.IntRange(0, 5).Draw(t, "before") {
					c := charge(l, 1, rapid.IntRange(1, 4).Draw(t, "cost"), now)
					out, ok := take(c.Cost, store)
					var k Ticket
					c.StoreNow, c.StoreLatest = store, store
					table.Sent(&k, &c, now)
					table.Answered(&k, &c, ok, out, Debt{}, store, now)
					step := int64(rapid.IntRange(1, 4000).Draw(t, "ms"))
					now, store = now+budget.Instant(step)*second/1000, store+1000*step
				}
				unsure := int64(0) // the store's clock may be so far ahead of, and behind, what the daemon thinks
				for range rapid.IntRange(1, 30).Draw(t, "steps") {
					step := int64(rapid.IntRange(1, 4000).Draw(t, "ms"))
					now, unsure = now+budget.Instant(step)*second/1000, unsure+step*20
					store += 1000 * step
					c := charge(l, 1, rapid.IntRange(1, 4).Draw(t, "cost"), now)
					c.StoreNow, c.StoreLatest = store-unsure, store+unsure
					is := store + int64(rapid.IntRange(-1000, 1000).Draw(t, "is"))*unsure/1000
					if rapid.IntRange(0, 3).Draw(t, "lost") == 0 {
						var k Ticket
						table.Sent(&k, &c, now)
						is = max(is, real.At)
						take(c.Cost, is)
						table.Lost(&k, &c, now)
						continue
					}
					if !table.Decide([]Charge{c}, false, now, make([]limit.Outcome, 1)) {
						continue
					}
					if is < real.At {
						is = real.At // the store's clock does not go back
					}
					if out, ok := take(c.Cost, is); !ok {
						t.Fatalf("%d admitted where the limit has %d left", c.Cost, out.Tokens)
					}
				}
			})
		})
	}
}

// TestSharesThatChange: from when the change of a key's share leaves nothing of it is admitted, and then what the store
// says that is left of it.
func TestSharesThatChange(t *testing.T) {
	table, now := New(10, 0), 60*second
	answered(table, bucket, 1, 60, now)
	table.Forget(keyOf(1), now)
	if n := burst(table, bucket, 1, now); n != 0 {
		t.Errorf("%d admitted while the share changes", n)
	}
	table.Tell(keyOf(1), 10*limit.Token, bucket.Rate.Micro, int64(now)/1000, now)
	if n := burst(table, bucket, 1, now); n != 10 {
		t.Errorf("%d admitted where the store said 10", n)
	}
}

// TestBorrowedCountsAsHeld: while a part of the record is lent to this daemon, which spends it besides, the bucket fills
// up to that much less. An answer that was overtaken lowers nothing.
func TestBorrowedCountsAsHeld(t *testing.T) {
	for _, is := range []struct {
		at   budget.Instant
		want int
	}{{2 * second, 80}, {4 * second, 80}, {5 * second, 90}, {9 * second, 100}} {
		table := New(10, 0)
		answered(table, bucket, 1, 75, second)
		table.borrowed(keyOf(1), 20*limit.Token, 4*second, int64(second)/1000)
		table.borrowed(keyOf(1), 0, 0, int64(second)/1000-1)
		if got := burst(table, bucket, 1, is.at); got != is.want {
			t.Errorf("at %v: %d, want %d", is.at, got, is.want)
		}
	}
}

// An admission without the store stays owed if the store denies the call that the request had sent: the
// store has charged nothing.
func TestADeniedCallLeavesWhatWasAdmittedOwed(t *testing.T) {
	for allowed, want := range map[bool]limit.Tokens{false: limit.Token, true: 0} {
		table, now := New(10, 0), 60*second
		answered(table, bucket, 1, 60, now)
		var k Ticket
		c := charge(bucket, 1, 1, now)
		table.Sent(&k, &c, now)
		c.Own = &k
		if !table.Decide([]Charge{c}, false, now, make([]limit.Outcome, 1)) {
			t.Fatal("60 are left, and 1 is not admitted")
		}
		table.Answered(&k, &c, allowed, limit.Outcome{Bucket: c.Bucket}, Debt{}, int64(now)/1000+1, now)
		if owed := table.Owed(keyOf(1), now); owed != want {
			t.Errorf("the store allowed the call: %v, %d owed, want %d", allowed, owed/limit.Token, want/limit.Token)
		}
	}
}

// Use that the store reports counts besides what was admitted here and not reported to it.
func TestTheStoresUseCountsBesideAdmissionsHere(t *testing.T) {
	table, began := New(10, 0), 600*second // a window of a minute begins
	answered(table, counting, 1, 70, began+10*second)
	if !table.Decide([]Charge{charge(counting, 1, 5, began+11*second)}, false, began+11*second, make([]limit.Outcome, 1)) {
		t.Fatal("70 are left, and 5 are not admitted")
	}
	answered(table, counting, 1, 50, began+12*second) // the call carried nothing of the 5
	if n := burst(table, counting, 1, began+13*second); n > 45 {
		t.Errorf("%d more admitted of 100; 50 are in use by the store, and 5 were admitted here", n)
	}
}

// A denial without the store says something about a limit only if it is known what is left.
func TestWhatIsLeftIsKnown(t *testing.T) {
	now := 60 * second
	none := charge(bucket, 1, 1, now)
	none.Bucket = limit.Bucket{}
	late := charge(bucket, 1, 1, now)
	late.From = now
	slots := charge(counting, 1, 1, now)
	slots.Limit.Algorithm = limit.Concurrency
	unclear := charge(counting, 1, 1, now)
	unclear.StoreNow = 0
	for what, c := range map[string]struct {
		of    Charge
		tells bool
	}{
		"of a bucket that the store has reported":         {charge(bucket, 1, 1, now), true},
		"of a bucket that was never asked about":          {charge(bucket, 2, 1, now), false},
		"of a region that may spend nothing":              {none, false},
		"of a bucket that was another region's until now": {late, false},
		"of a window that the store has reported":         {charge(counting, 1, 1, now), true},
		"of a window by a clock that is not known":        {unclear, false},
		"of slots": {slots, true},
	} {
		table := New(10, 0)
		answered(table, c.of.Limit, 1, 60, now-second)
		if table.Tells(&c.of, now) != c.tells {
			t.Errorf("%s: known is %v", what, !c.tells)
		}
	}
	table := New(10, 0)
	if burst(table, bucket, 2, now); !table.Owes(keyOf(2)) {
		t.Fatal("nothing is owed")
	}
	if c := charge(bucket, 2, 1, now); !table.Tells(&c, now) {
		t.Error("what is left is not known of a bucket that was spent from here")
	}
}
