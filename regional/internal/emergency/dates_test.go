package emergency

import (
	"context"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/recall"
	"aliquot/internal/storeclock"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/charge"
)

// aLog returns a log of 100 a minute of a daemon whose clock, and its store's, show two hours.
func aLog() (e *Limit, a charge.Charge, c recall.Charge, now budget.Instant) {
	now = 7200 * second
	e, a = New(func() budget.Instant { return now }, storeclock.New(), nil), anAsk(1)
	a.Limit = limit.Limit{Algorithm: limit.SlidingLog, Capacity: 100 * limit.Token, Window: time.Minute}
	c = recall.Charge{Key: a.Key, Limit: a.Limit, Bucket: limit.Bucket{Cap: a.Limit.Capacity}, StoreNow: 7200e6, StoreLatest: 7200e6}
	return e, a, c, now
}

// TestASettlementEndsTheDatesOfUse: it may give back what was admitted, so from then on nobody knows when what is in
// use of a log was admitted.
func TestASettlementEndsTheDatesOfUse(t *testing.T) {
	e, a, c, now := aLog()
	c.Cost = 20 * limit.Token
	for i, at := range []int64{7150e6, 7199e6} {
		var k recall.Ticket
		left := limit.Tokens(80-20*i) * limit.Token
		e.table.Sent(&k, &c, budget.Instant(at)*1000)
		e.table.Answered(&k, &c, true, limit.Outcome{Tokens: left, Bucket: c.Bucket}, recall.Debt{}, at, budget.Instant(at)*1000)
	}
	earlier := func() int {
		e.table.HoldsUntil(now + 1)
		e.table.Emptied(now)
		return len(e.table.Memory(&c, now).Earlier)
	}
	if earlier() != 1 {
		t.Fatal("the use before has no date")
	}
	a.Cost = 20 * limit.Token
	e.Overran(&charge.Transaction{Charges: []charge.Charge{a}}, []limit.Tokens{20 * limit.Token}, "")
	if earlier() != 1 {
		t.Error("the use before has no date after a settlement that gives nothing back")
	}
	e.Overran(&charge.Transaction{Charges: []charge.Charge{a}}, []limit.Tokens{5 * limit.Token}, "")
	if earlier() != 0 {
		t.Error("the use before has a date after a settlement that gives back")
	}
}

// TestASettlementTellsWhatIsInUse: the answer to a settlement of a log says what is in use, and new contents are told so.
func TestASettlementTellsWhatIsInUse(t *testing.T) {
	e, a, c, now := aLog()
	var k recall.Ticket
	e.table.Sent(&k, &c, now-second)
	e.table.Answered(&k, &c, true, limit.Outcome{Tokens: 80 * limit.Token, Bucket: c.Bucket}, recall.Debt{}, 7199e6, now-second)
	parts := &charge.Transaction{Charges: []charge.Charge{a}}
	e.Overran(parts, []limit.Tokens{30*limit.Token + a.Cost}, "")
	e.Adjusted(parts, []limit.Adjusted{{Charged: 30 * limit.Token, Tokens: 50 * limit.Token, InUse: 50 * limit.Token, At: 7200e6}}, nil)
	e.table.HoldsUntil(now + 1)
	e.table.Emptied(now)
	if m := e.table.Memory(&c, now); m == nil || m.Used != 50*limit.Token {
		t.Errorf("the new contents are told %+v, want 50 in use", m)
	}
}

// TestNothingIsEarnedBeforeWhatIsOwed: this run has admitted 99 of a bucket before it could continue with the last run's
// knowledge that it was full. The bucket does not fill up for the time before that.
func TestNothingIsEarnedBeforeWhatIsOwed(t *testing.T) {
	of := func(k recall.SavedKey) *recall.Snapshot {
		k.Key, k.Known = anAsk(1).Key, true
		return &recall.Snapshot{Keys: []recall.SavedKey{k}}
	}
	k := &Kept{Records: of(recall.SavedKey{Left: 100 * limit.Token, At: second})}
	k.add(of(recall.SavedKey{Owed: 99 * limit.Token, At: 71 * second}), second)
	if got := k.Records.Keys[0]; got.Left != limit.Token || got.At != 70*second {
		t.Errorf("%d left at %d s, want 1 token at 70 s", got.Left, got.At/second)
	}
}

// leftOf returns what memory would admit of a charge's key.
func (e *Limit) leftOf(c recall.Charge, now budget.Instant) limit.Tokens {
	var out [1]limit.Outcome
	e.table.Decide([]recall.Charge{c}, true, now, out[:]) // true: it charges nothing
	return out[0].Tokens
}

// TestASettlementThatWasNotMade: 60 beyond a reservation are not left of a bucket of 100 that earns 10 a second while the
// call for them is under way. They are left again if it was late, or if the reservation had ended. Otherwise they may have
// been taken until two seconds later, and are earned from then on.
func TestASettlementThatWasNotMade(t *testing.T) {
	for _, is := range []struct {
		err               error
		left, later, last int
	}{{&lua.LateError{}, 100, 100, 100}, {nil, 100, 100, 100}, {context.DeadlineExceeded, 40, 50, 100}} {
		now := 7200 * second
		e, a := New(func() budget.Instant { return now }, storeclock.New(), nil), anAsk(1)
		c := recall.Charge{Key: a.Key, Limit: a.Limit, Bucket: limit.Bucket{Cap: 100 * limit.Token, Rate: limit.Rate{Micro: 10e6}}}
		left := func(later budget.Instant) int { return int(e.leftOf(c, now+later) / limit.Token) }
		var k recall.Ticket
		e.table.Sent(&k, &c, now)
		e.table.Answered(&k, &c, true, limit.Outcome{Tokens: 100 * limit.Token, Bucket: c.Bucket}, recall.Debt{}, int64(now)/1000, now)
		parts := &charge.Transaction{Charges: []charge.Charge{a}}
		for range 3 { // the call is tried again
			e.Overran(parts, []limit.Tokens{a.Cost + 60*limit.Token}, "")
			if n := left(0); is.left == 100 && n != 40 {
				t.Errorf("%v: %d left beside the call", is.err, n)
			}
			e.Adjusted(parts, nil, is.err)
			if n := left(0); n != is.left {
				t.Errorf("%v: %d left after the call, want %d", is.err, n, is.left)
			}
			if is.left != 100 {
				break
			}
		}
		if n := left(3 * second); n != is.later {
			t.Errorf("%v: %d left three seconds later, want %d", is.err, n, is.later)
		}
		if n := left(10 * second); n != is.last {
			t.Errorf("%v: %d left ten seconds later, want %d", is.err, n, is.last)
		}
	}
}

// TestASettlementThatMayOwe: 160 beyond a reservation are charged to a bucket of 100 that earns 10 a second, which is full, and
// the call has no answer. The bucket may owe 60 from two seconds later on.
func TestASettlementThatMayOwe(t *testing.T) {
	now := 7200 * second
	e, a := New(func() budget.Instant { return now }, storeclock.New(), nil), anAsk(1)
	c := recall.Charge{Key: a.Key, Limit: a.Limit, Cost: limit.Token, Bucket: limit.Bucket{Cap: 100 * limit.Token, Rate: limit.Rate{Micro: 10e6}}}
	var k recall.Ticket
	e.table.Sent(&k, &c, now)
	e.table.Answered(&k, &c, true, limit.Outcome{Tokens: 100 * limit.Token, Bucket: c.Bucket}, recall.Debt{}, int64(now)/1000, now)
	parts := &charge.Transaction{Charges: []charge.Charge{a}}
	e.Overran(parts, []limit.Tokens{a.Cost + 160*limit.Token}, "")
	e.Adjusted(parts, nil, context.DeadlineExceeded)
	if e.leftOf(c, now+8*second) >= limit.Token || e.leftOf(c, now+8*second+second/10) < limit.Token {
		t.Error("what was owed is not earned in six seconds")
	}
}
