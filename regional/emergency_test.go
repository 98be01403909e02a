package regional

import (
	"encoding/binary"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/rules"
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

// restarted is the machine of a daemon that a coordinator told before its restart that the
// store had started full, and that has learnt its contents and had no session since.
func restarted(c budget.Config, at budget.Instant) *budget.Region {
	region := budget.NewRegion(0, budget.Config{}, 1, at)
	region.SetConfig(0, c, "first", 1, at)
	region.Step(budget.StoreEpoch{Epoch: "first"}, at)
	return region
}

// burstsOfARestarted is the emergency limit of a restarted daemon, and how much of a key it
// admits at once.
func burstsOfARestarted(c budget.Config, now *budget.Instant) (e *emergency, burst func(n uint64, enforcement string) (passed int)) {
	region := restarted(c, *now)
	e = newEmergency(func() budget.Instant { return *now })
	return e, func(n uint64, enforcement string) (passed int) {
		a := anAsk(n)
		a.enforcement = enforcement
		if a.right = region.Right(a.key, a.keyLimit(), *now); enforcement == rules.Independent {
			a.right = wholeRight(a.right)
		}
		for e.take([]*ask{&a}, false, make([]limit.Outcome, 1)) {
			passed++
		}
		return passed
	}
}

// TestEmergencyLimitOfALentFloor: a store that fails before the first session of a daemon
// has kept to itself what was lent. The daemon admits nothing of a floor before everyone
// has made room for it, and then what it has earned since; what no other region has a part
// in is its own all along.
func TestEmergencyLimitOfALentFloor(t *testing.T) {
	now := second
	config := budget.NewConfig([]string{"us", "eu"}, 10*time.Second, 20_000)
	_, burst := burstsOfARestarted(config, &now)
	own := now.Add(config.FloorAfterUse(0))
	burst(2, rules.Independent)
	alone := 0
	for ; now < own; now += second / 10 {
		if n := burst(1, rules.Strict); n != 0 {
			t.Fatalf("%d passed of a floor that may be lent, %v before it is back", n, own.Sub(now))
		}
		alone += burst(2, rules.Independent)
	}
	if least := 80 * int(own.Sub(second).Seconds()); alone < least {
		t.Errorf("%d passed of a limit that is this region's alone, %d at least were earned", alone, least)
	}
	now = own + second/5
	if n := burst(1, rules.Strict); n < 7 || n > 9 {
		t.Errorf("%d passed 0.2 s after the floor was back, at 45/s", n)
	}
}

// TestEmergencyLimitOfASecondDaemon: while the region has another daemon, this one admits
// nothing of what that one may have lent, however long it has heard nothing; and when it has
// the floor for itself it begins with what it earns from then on.
func TestEmergencyLimitOfASecondDaemon(t *testing.T) {
	now := second
	config := budget.NewConfig([]string{"us", "eu"}, 10*time.Second, 20_000)
	e, burst := burstsOfARestarted(config, &now)
	burst(1, rules.Strict)
	burst(2, rules.Independent)
	burst(3, rules.Strict)
	now = now.Add(config.FloorAfterUse(0)) + 10*second
	if n := burst(1, rules.Strict); n < 44 {
		t.Fatalf("%d passed of a bucket of 45 that is full, and everyone has made room: nothing was shown", n)
	}
	e.leaveFloor(true)
	for range 100 {
		now += second / 10
		if n := burst(1, rules.Strict); n != 0 {
			t.Fatalf("%d passed of what may be lent", n)
		}
	}
	if n := burst(2, rules.Independent); n < 89 {
		t.Errorf("%d passed of a limit that is this region's alone, a full bucket has 90", n)
	}
	e.leaveFloor(false)
	now += second / 5
	for _, key := range []uint64{1, 3} {
		if n := burst(key, rules.Strict); n < 7 || n > 9 {
			t.Errorf("key %d: %d passed 0.2 s after the floor was this one's, at 45/s", key, n)
		}
	}
}

// TestEmergencyLimitOfADaemonNobodyIsHeardBeside: a daemon that was told that nobody has the
// floor yet, and then hears nothing more, has it when everyone has made room, as one that
// was never told anything. Another one's is not its own for that.
func TestEmergencyLimitOfADaemonNobodyIsHeardBeside(t *testing.T) {
	now := second
	config := budget.NewConfig([]string{"us", "eu"}, 10*time.Second, 20_000)
	room := config.FloorAfterUse(0)
	e, burst := burstsOfARestarted(config, &now)
	passes := func() bool { return burst(1, rules.Strict) > 0 }
	later := func(d time.Duration) {
		now = now.Add(d)
		passes() // a bucket fills from when it was first looked at
		now += second
	}
	e.leaveFloorFor(room)
	if later(room - time.Second - 1); passes() {
		t.Error("admitted before everyone has made room")
	}
	e.stillLeft(room)
	if later(room - time.Second - 1); passes() {
		t.Error("admitted though a coordinator was heard since, who does not know of others")
	}
	if later(time.Second); !passes() {
		t.Error("nothing is admitted though everyone has made room")
	}
	e.leaveFloor(true)
	e.stillLeft(room)
	if later(10 * room); passes() {
		t.Error("admitted of what another daemon may have lent")
	}
}

// TestEmergencyLimitOfASecondDaemonsWindows: what others used of a lent floor counts for as
// long as the window, also when the floor is this daemon's again.
func TestEmergencyLimitOfASecondDaemonsWindows(t *testing.T) {
	now := second
	config := budget.NewConfig([]string{"us", "eu"}, 10*time.Second, 20_000)
	region := restarted(config, now)
	e := newEmergency(func() budget.Instant { return now })
	a := anAsk(1)
	a.enforcement = rules.Strict
	a.limit = limit.Limit{Algorithm: limit.FixedWindow, Capacity: 100 * limit.Token, Window: time.Hour}
	bucket := func() limit.Bucket {
		a.right = region.Right(a.key, a.keyLimit(), now)
		return e.bucketOf(&a, now)
	}
	tail := a.keyLimit().Tail
	now = now.Add(3 * tail)
	if bucket() == (limit.Bucket{}) {
		t.Fatal("a daemon that never heard of another has no floor: nothing was shown")
	}
	e.leaveFloor(true)
	e.leaveFloor(false)
	for _, is := range []struct {
		after time.Duration
		empty bool
	}{{0, true}, {tail, true}, {tail*3/2 - 1, true}, {tail * 3 / 2, false}} {
		back := now
		now = now.Add(is.after)
		if empty := bucket() == (limit.Bucket{}); empty != is.empty {
			t.Errorf("%v after the floor was its own again it has none: %v", is.after, empty)
		}
		now = back
	}
}

// TestEmergencyLimitOfAFloorThatComesBack: a key whose whole share was lent earns from when
// the region is cut off, and one whose floor has changed from then on, however long its
// record is older.
func TestEmergencyLimitOfAFloorThatComesBack(t *testing.T) {
	for name, back := range map[string]func(a *ask, at budget.Instant){
		"lent":            func(a *ask, at budget.Instant) { a.right.Hot, a.right.Phase, a.right.Since = true, budget.CutOff, at },
		"grown and heard": func(a *ask, at budget.Instant) { a.right.Phase, a.right.FloorSince = budget.Live, at },
		"grown and cut off": func(a *ask, at budget.Instant) {
			a.right.Phase, a.right.Since, a.right.FloorSince = budget.CutOff, at-second, at
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := second
			e := newEmergency(func() budget.Instant { return now })
			a, out := anAsk(1), make([]limit.Outcome, 1)
			a.right.Hot, a.right.Phase = name == "lent", budget.Limbo
			e.take([]*ask{&a}, false, out)
			now = 60 * second
			back(&a, now-second/5)
			passed := 0
			for e.take([]*ask{&a}, false, out) {
				passed++
			}
			if passed < 7 || passed > 9 {
				t.Errorf("%d passed 0.2 s after the floor was back, at 45/s", passed)
			}
		})
	}
}
