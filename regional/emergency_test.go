package regional

import (
	"encoding/binary"
	"testing"

	"aliquot/budget"
	"aliquot/limit"
)

// anAsk is for key n of a limit of 100, 100 a second, of which the region has half.
func anAsk(n uint64) ask {
	a := ask{
		cost:  limit.Token,
		limit: limit.Limit{Capacity: 100 * limit.Token, Rate: limit.Rate{Micro: 100 * int64(limit.Token)}},
		right: budget.Right{Floor: budget.Share{Rate: budget.Unit / 2, Burst: budget.Unit / 2}, Phase: budget.CutOff},
	}
	binary.BigEndian.PutUint64(a.key.Hash[:], n)
	return a
}

func asksOf(keys ...uint64) (asks []*ask) {
	for _, n := range keys {
		asks = append(asks, new(anAsk(n)))
	}
	return asks
}

func admitted(e *emergency, n uint64) bool {
	return e.take(asksOf(n), false, make([]limit.Outcome, 1))
}

func TestEmergencyTakesNoMemoryOfAKeyThatItKnows(t *testing.T) {
	e := newEmergency(func() budget.Instant { return second })
	asks, out := asksOf(1), make([]limit.Outcome, 1)
	e.take(asks, false, out)
	// What other tests left running may take memory meanwhile.
	eventually(t, "it takes no memory", func() bool {
		return testing.AllocsPerRun(100, func() { e.take(asks, false, out) }) == 0
	})
}

func TestEmergencyStartsEmptyAndHasNineTenths(t *testing.T) {
	now := second
	e := newEmergency(func() budget.Instant { return now })
	if admitted(e, 1) {
		t.Fatal("it did not start empty")
	}
	now = now.Add(takeAtMost)
	passed := 0
	for range 1000 {
		now += second / 100
		if admitted(e, 1) {
			passed++
		}
	}
	if passed < 445 || passed > 450 {
		t.Errorf("%d passed in 10 s, nine tenths of 50/s are 450", passed)
	}
	now += 100 * second
	passed = 0
	for admitted(e, 1) {
		passed++
	}
	if passed > 45 {
		t.Errorf("a burst of %d, nine tenths of 50 are 45", passed)
	}
}

func TestEmergencyDebtIsPaidOnce(t *testing.T) {
	now := second
	e := newEmergency(func() budget.Instant { return now })
	admitted(e, 1)
	now = now.Add(takeAtMost) + second/10
	admitted(e, 1)
	admitted(e, 1)
	carry := func() []*group {
		g := []*group{{asks: []ask{anAsk(1)}}}
		e.debits(g, now)
		return g
	}
	first, second := carry(), carry()
	if first[0].asks[0].debit != 2*limit.Token || second[0].asks[0].debit != 2*limit.Token {
		t.Fatalf("debits %d and %d", first[0].asks[0].debit, second[0].asks[0].debit)
	}
	e.settled(first, false)
	if again := carry(); again[0].asks[0].debit != 2*limit.Token {
		t.Errorf("after a failed call %d is owed", again[0].asks[0].debit)
	}
	e.settled(second, true)
	if paid := carry(); paid[0].asks[0].debit != 0 || e.keys.Load() != 0 {
		t.Errorf("after a good call %d is owed, %d keys", paid[0].asks[0].debit, e.keys.Load())
	}
}

// TestEmergencyDebtIsCarriedOnceACall: checks of one key that share a call see each
// other's effect in it.
func TestEmergencyDebtIsCarriedOnceACall(t *testing.T) {
	now := second
	e := newEmergency(func() budget.Instant { return now })
	admitted(e, 1)
	now = now.Add(takeAtMost) + second/10
	admitted(e, 1)
	call := []*group{{asks: []ask{anAsk(2), anAsk(1)}}, {asks: []ask{anAsk(1)}}, {asks: []ask{anAsk(1)}}}
	for range 2 { // the second after a failure
		e.debits(call, now)
		var carried limit.Tokens
		for _, g := range call {
			for i := range g.asks {
				carried += g.asks[i].debit
			}
		}
		if carried != limit.Token || call[0].asks[1].debit != limit.Token {
			t.Errorf("the call carries %d, its first check of the key %d", carried, call[0].asks[1].debit)
		}
		e.settled(call, false)
	}
	e.settled(call, true)
	if e.debits(call, now); call[0].asks[1].debit != 0 {
		t.Errorf("%d owed after a good call", call[0].asks[1].debit)
	}
}

func TestEmergencyDebtEndsWhenTheBucketWouldBeFull(t *testing.T) {
	now := second
	e := newEmergency(func() budget.Instant { return now })
	admitted(e, 1)
	now = now.Add(takeAtMost) + second/10
	admitted(e, 1)
	now += 3 * second // 50 at 50/s, with 2 % and a second to spare, is 2.02 s
	g := []*group{{asks: []ask{anAsk(1)}}}
	if e.debits(g, now); g[0].asks[0].debit != 0 {
		t.Errorf("%d owed of a bucket that is full", g[0].asks[0].debit)
	}
}

func TestEmergencyIsAllOrNothing(t *testing.T) {
	now := second
	e := newEmergency(func() budget.Instant { return now })
	admitted(e, 1)
	now = now.Add(takeAtMost) + second/10
	out := make([]limit.Outcome, 2)
	if e.take(asksOf(1, 2), false, out) || out[0].Tokens < limit.Token {
		t.Fatalf("%+v", out)
	}
	if g := []*group{{asks: []ask{anAsk(1)}}}; true {
		if e.debits(g, now); g[0].asks[0].debit != 0 {
			t.Error("a denied request is owed for")
		}
	}
}

func TestEmergencyTableIsBounded(t *testing.T) {
	now := second
	e := newEmergency(func() budget.Instant { return now })
	for n := range uint64(maxEmergencyKeys) {
		admitted(e, n)
	}
	now = now.Add(takeAtMost) + second/10
	for n := range uint64(maxEmergencyKeys) {
		admitted(e, n) // each owes now
	}
	for n := range uint64(1000) {
		if admitted(e, maxEmergencyKeys+n) {
			t.Fatal("a key beyond the table was admitted")
		}
	}
	if len(e.table) > maxEmergencyKeys {
		t.Errorf("%d keys", len(e.table))
	}
	now += 100 * second // nothing is owed any more
	admitted(e, 1<<40)
	now = now.Add(takeAtMost) + second/10
	if !admitted(e, 1<<40) {
		t.Error("the table never gets room again")
	}
}

// TestEmergencyWaitsForCallsUnderWay: a call that was given up may yet be decided, by
// the debt of when it was sent; what is admitted before that could not be debited.
func TestEmergencyWaitsForCallsUnderWay(t *testing.T) {
	now := second
	e := newEmergency(func() budget.Instant { return now })
	const wait = budget.Instant(takeAtMost)
	if admitted(e, 1) {
		t.Fatal("it did not start empty")
	}
	if now += wait; admitted(e, 1) {
		t.Fatal("it earned while calls from before could be decided")
	}
	now += second
	if !admitted(e, 1) {
		t.Fatal("it earned nothing after that")
	}
	call := []*group{{asks: []ask{anAsk(1)}}}
	sent := now
	e.debits(call, sent+wait)
	e.settled(call, false)
	for now = sent; now <= sent+wait; now += second / 100 {
		if admitted(e, 1) {
			t.Fatalf("it admitted %v after a call that may be decided later", now.Sub(sent))
		}
	}
	now += second / 10
	passed := 0
	for admitted(e, 1) {
		passed++
	}
	if passed < 3 || passed > 5 {
		t.Errorf("%d passed 0.1 s after the call was out of the way, at 45/s", passed)
	}
	e.debits(call, now+wait)
	if owed := limit.Tokens(1+passed) * limit.Token; call[0].asks[0].debit != owed {
		t.Errorf("%d owed of %d", call[0].asks[0].debit, owed)
	}
	e.settled(call, true)
	if e.keys.Load() != 0 {
		t.Errorf("%d keys after a good call", e.keys.Load())
	}
}
