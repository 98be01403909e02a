package emergency

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/internal/roster"
	"aliquot/internal/storeclock"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/charge"
	"aliquot/rules"
)

// second is a second of the daemon's clock.
const second = budget.Instant(time.Second)

// anAsk is for key n of a limit of 100, 100 a second, of which the region has half.
func anAsk(n uint64) charge.Charge {
	a := charge.Charge{
		Planned: charge.Planned{
			Cost:  limit.Token,
			Limit: limit.Limit{Capacity: 100 * limit.Token, Rate: limit.Rate{Micro: 100 * int64(limit.Token)}},
		},
		Right: budget.Right{Floor: budget.Share{Rate: budget.Unit / 2, Burst: budget.Unit / 2}, Phase: budget.CutOff},
	}
	binary.BigEndian.PutUint64(a.Key.Hash[:], n)
	return a
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
func burstsOfARestarted(c budget.Config, now *budget.Instant) (e *Limit, burst func(n uint64, enforcement string) (passed int)) {
	region := restarted(c, *now)
	e = New(func() budget.Instant { return *now }, storeclock.New(), nil)
	return e, func(n uint64, enforcement string) (passed int) {
		a := anAsk(n)
		a.Enforcement = enforcement
		if a.Right = region.Right(a.Key, a.KeyLimit(), *now); enforcement == rules.Independent {
			a.Right = entitlement.Whole(a.Right)
		}
		for e.Take([]*charge.Charge{&a}, false, "", make([]limit.Outcome, 1)) {
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
		t.Errorf("%d passed 0.2 s after the floor was back, at 49/s", n)
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
		t.Fatalf("%d passed of a bucket of 50 that is full, and everyone has made room: nothing was shown", n)
	}
	e.LeaveFloor(true)
	for range 100 {
		now += second / 10
		if n := burst(1, rules.Strict); n != 0 {
			t.Fatalf("%d passed of what may be lent", n)
		}
	}
	if n := burst(2, rules.Independent); n < 89 {
		t.Errorf("%d passed of a limit that is this region's alone, a full bucket has 90", n)
	}
	e.LeaveFloor(false)
	now += second / 5
	for _, key := range []uint64{1, 3} {
		if n := burst(key, rules.Strict); n < 7 || n > 9 {
			t.Errorf("key %d: %d passed 0.2 s after the floor was this one's, at 49/s", key, n)
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
	e.LeaveFloorFor(room)
	if later(room - time.Second - 1); passes() {
		t.Error("admitted before everyone has made room")
	}
	e.StillLeft(room)
	if later(room - time.Second - 1); passes() {
		t.Error("admitted though a coordinator was heard since, who does not know of others")
	}
	if later(time.Second); !passes() {
		t.Error("nothing is admitted though everyone has made room")
	}
	e.LeaveFloor(true)
	e.StillLeft(room)
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
	e := New(func() budget.Instant { return now }, storeclock.New(), nil)
	a := anAsk(1)
	a.Enforcement = rules.Strict
	a.Limit = limit.Limit{Algorithm: limit.FixedWindow, Capacity: 100 * limit.Token, Window: time.Hour}
	bucket := func() limit.Bucket {
		a.Right = region.Right(a.Key, a.KeyLimit(), now)
		return e.bucketOf(&a, now)
	}
	tail := a.KeyLimit().Tail
	now = now.Add(3 * tail)
	if bucket() == (limit.Bucket{}) {
		t.Fatal("a daemon that never heard of another has no floor: nothing was shown")
	}
	e.LeaveFloor(true)
	e.LeaveFloor(false)
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
	for name, back := range map[string]func(a *charge.Charge, at budget.Instant){
		"lent": func(a *charge.Charge, at budget.Instant) {
			a.Right.Hot, a.Right.Phase, a.Right.Since = true, budget.CutOff, at
		},
		"grown and heard": func(a *charge.Charge, at budget.Instant) { a.Right.Phase, a.Right.FloorSince = budget.Live, at },
		"grown and cut off": func(a *charge.Charge, at budget.Instant) {
			a.Right.Phase, a.Right.Since, a.Right.FloorSince = budget.CutOff, at-second, at
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := second
			e := New(func() budget.Instant { return now }, storeclock.New(), nil)
			a, out := anAsk(1), make([]limit.Outcome, 1)
			a.Right.Hot, a.Right.Phase = name == "lent", budget.Limbo
			e.Take([]*charge.Charge{&a}, false, "", out)
			now = 60 * second
			back(&a, now-second/5)
			passed := 0
			for e.Take([]*charge.Charge{&a}, false, "", out) {
				passed++
			}
			if passed < 7 || passed > 9 {
				t.Errorf("%d passed 0.2 s after the floor was back, at 49/s", passed)
			}
		})
	}
}

// What a daemon earned without its store is its own, unless another daemon was known meanwhile: that one
// may have spent it. Only the end of such a time counts.
func TestNothingEarnedBesideAnotherDaemonIsKept(t *testing.T) {
	now := budget.Instant(10 * time.Second)
	e := New(func() budget.Instant { return now }, storeclock.New(), nil)
	since := func(another bool) budget.Instant {
		now += budget.Instant(time.Second)
		e.Beside(another, roster.Certain)
		return e.back
	}
	if got := since(false); got != 0 {
		t.Errorf("it was always alone, and keeps only what it earned since %v", got)
	}
	since(true)
	ended := since(false)
	if ended != now {
		t.Errorf("it keeps what it earned since %v, and is alone since %v", ended, now)
	}
	if got := since(false); got != ended {
		t.Errorf("told again that it is alone, it keeps only what it earned since %v", got)
	}
}

// TestALimitOfThisRegionAloneBesideAnotherDaemon: the other daemon may have the store, and spends by it what is this
// region's alone, too. What it may have spent does not count after its end.
func TestALimitOfThisRegionAloneBesideAnotherDaemon(t *testing.T) {
	now := second
	config := budget.NewConfig([]string{"us", "eu"}, 10*time.Second, 20_000)
	e, burst := burstsOfARestarted(config, &now)
	now += 10 * second
	e.Beside(true, roster.Certain)
	if n := burst(1, rules.Independent); n != 0 {
		t.Errorf("%d passed without the store", n)
	}
	now += 10 * second
	e.Beside(false, roster.Certain)
	now += second / 5
	for _, key := range []uint64{1, 2} {
		if n := burst(key, rules.Independent); n < 17 || n > 20 {
			t.Errorf("key %d: %d passed 0.2 s after the other daemon has gone, at 98/s", key, n)
		}
	}
}

// TestNothingIsAdmittedBeforeTheListOfDaemonsIsRead: another daemon may be in it. What was earned meanwhile stays.
func TestNothingIsAdmittedBeforeTheListOfDaemonsIsRead(t *testing.T) {
	t.Parallel()
	now := second
	e := New(func() budget.Instant { return now }, storeclock.New(), nil)
	a := anAsk(1)
	a.Right.Phase, a.Right.Until = budget.Live, 11*second
	take := func() bool { return e.Take([]*charge.Charge{&a}, false, "", make([]limit.Outcome, 1)) }
	take()
	now = 10 * second
	if e.Beside(true, roster.Uncertain); take() {
		t.Error("it admits while the list is not read")
	}
	if e.table.HoldsUntil(now + second); take() {
		t.Error("it admits while no list is read, since it has the session")
	}
	if e.Beside(false, roster.CertainInSession); !take() {
		t.Error("it has the session and was alone in the former list, and admits nothing")
	}
	if e.Beside(false, roster.Certain); !take() || e.back != 0 {
		t.Errorf("alone in the list, it admits nothing, or keeps only what it earned since %v", e.back)
	}
}

// TestEmergencyGoesByNoLeaseThatHasEnded: the right was read under a lease, which ends
// before the emergency limit decides by it.
func TestEmergencyGoesByNoLeaseThatHasEnded(t *testing.T) {
	now := second
	e := New(func() budget.Instant { return now }, storeclock.New(), nil)
	a := anAsk(1)
	a.Right.Phase, a.Right.Until = budget.Live, 11*second
	take := func() bool { return e.Take([]*charge.Charge{&a}, false, "", make([]limit.Outcome, 1)) }
	take()
	if now = 10 * second; !take() {
		t.Fatal("under its lease it admits nothing")
	}
	if now = a.Right.Until; take() {
		t.Error("after its lease it admits")
	}
}

// carriedBy returns the debt that a charge's call carries.
func carriedBy(a *charge.Charge) limit.Tokens {
	if a.Carried == nil {
		return 0
	}
	return a.Carried.Amount
}

// answeredFull has the store, with its first contents, answer that a's bucket of 50 is full.
func answeredFull(e *Limit, a charge.Charge, now budget.Instant) { answeredAs(e, a, "first", now) }

// answeredAs has the store do so with other contents.
func answeredAs(e *Limit, a charge.Charge, contents string, now budget.Instant) {
	g := &charge.Transaction{Charges: []charge.Charge{a}}
	e.Sent([]*charge.Transaction{g}, &charge.Header{Epoch: contents})
	full := lua.Result{Allowed: true, Limits: []limit.Outcome{{Tokens: 50 * limit.Token, Bucket: limit.Bucket{Cap: 50 * limit.Token, Rate: a.Limit.Rate}}}}
	answerOne(e, g, &full, 1, now, now)
}

// TestOtherContentsAreNotRemembered: what the store held before it lost its contents counts for nothing.
func TestOtherContentsAreNotRemembered(t *testing.T) {
	now := 100 * second
	e := New(func() budget.Instant { return now }, storeclock.New(), nil)
	a := anAsk(1)
	answeredFull(e, a, now)
	if !e.Take([]*charge.Charge{&a}, false, "first", make([]limit.Outcome, 1)) {
		t.Fatal("what the store said is not remembered")
	}
	if e.Take([]*charge.Charge{&a}, false, "second", make([]limit.Outcome, 1)) {
		t.Error("it was admitted by what other contents held")
	}
}

// TestADecisionThatComesLateIsNoChange: a decision knows the contents of before a change, and comes after a call that
// knows the present ones. The store has not changed again: what that call took off the store's record is paid.
func TestADecisionThatComesLateIsNoChange(t *testing.T) {
	now, latest := 100*second, "first"
	e := New(func() budget.Instant { return now }, storeclock.New(), func() string { return latest })
	a := anAsk(1)
	answeredFull(e, a, now)
	if !e.Take([]*charge.Charge{&a}, false, "first", make([]limit.Outcome, 1)) {
		t.Fatal("what the store said is not remembered")
	}
	latest = "second"
	g := &charge.Transaction{Charges: []charge.Charge{a}}
	e.Sent([]*charge.Transaction{g}, &charge.Header{Epoch: "second"})
	if e.Take([]*charge.Charge{&a}, true, "first", make([]limit.Outcome, 1)); carriedBy(&g.Charges[0]) == 0 {
		t.Fatal("what is owed is not carried")
	}
	few := lua.Result{Allowed: true, Limits: []limit.Outcome{{Tokens: 10 * limit.Token, Bucket: limit.Bucket{Cap: 50 * limit.Token, Rate: a.Limit.Rate}}}}
	if answerOne(e, g, &few, 2, now, now); e.Owes() {
		t.Error("what the store took is still owed")
	}
	if !e.Take([]*charge.Charge{&a}, false, "second", make([]limit.Outcome, 1)) {
		t.Error("what the store said is not remembered")
	}
}

// TestASessionIsHeldFromWhenItsReportLeft: the answer may have been on its way for longer than the leader waits for the
// next report, and another daemon may have had the session and spent meanwhile.
func TestASessionIsHeldFromWhenItsReportLeft(t *testing.T) {
	t.Parallel()
	holds := budget.SessionHolds(storeclock.New().Drift())
	for _, late := range []bool{false, true} {
		now := 100 * second
		e := New(func() budget.Instant { return now }, storeclock.New(), nil)
		a := anAsk(1)
		answeredFull(e, a, now)
		sent := now
		now = now.Add(holds - 1)
		if late {
			now++
		}
		e.InSession(sent)
		if took := e.Take([]*charge.Charge{&a}, false, "second", make([]limit.Outcome, 1)); took == late {
			t.Errorf("the session was surely held: %t; what was known before the store lost its contents counts: %t", !late, took)
		}
	}
}

// TestADebtIsOwedUntilACallHasPaidIt: a call without an answer may not have been made.
func TestADebtIsOwedUntilACallHasPaidIt(t *testing.T) {
	t.Parallel()
	now := 100 * second
	e := New(func() budget.Instant { return now }, storeclock.New(), nil)
	a := anAsk(1)
	g := &charge.Transaction{Charges: []charge.Charge{a}}
	first := &charge.Header{Epoch: "first"}
	e.Sent([]*charge.Transaction{g}, first)
	full := lua.Result{Allowed: true, Limits: []limit.Outcome{{Tokens: 50 * limit.Token, Bucket: limit.Bucket{Cap: 50 * limit.Token, Rate: a.Limit.Rate}}}}
	answerOne(e, g, &full, 1, now, now)
	if !e.Take([]*charge.Charge{&a}, false, "first", make([]limit.Outcome, 1)) || !e.Owes() {
		t.Fatal("nothing was admitted without the store")
	}
	e.Sent([]*charge.Transaction{g}, first)
	carried := carriedBy(&g.Charges[0])
	e.Failed([]*charge.Transaction{g}, context.DeadlineExceeded, now)
	if e.Sent([]*charge.Transaction{g}, first); carried != limit.Token || carriedBy(&g.Charges[0]) != carried {
		t.Errorf("of %v that are owed the first call carries %v, and the next one %v", limit.Token, carried, carriedBy(&g.Charges[0]))
	}
}

// TestAnOlderAnswerWhileAShareChanges: two calls for a key are under way. The answer to the later one comes first: 10
// are left. Then a share change leaves, and the answer to the earlier call comes: 40 were left. That is no news, also if
// the change has no answer.
func TestAnOlderAnswerWhileAShareChanges(t *testing.T) {
	for _, l := range []limit.Limit{
		{Capacity: 100 * limit.Token, Rate: limit.Rate{Micro: 1}}, {Algorithm: limit.SlidingLog, Capacity: 100 * limit.Token, Window: time.Hour},
	} {
		now := 100 * second
		clock := storeclock.New()
		clock.Add(storeclock.Sample{Store: 100_000_000, Sent: now, Received: now})
		e := New(func() budget.Instant { return now }, clock, nil)
		ask := func() *charge.Transaction {
			a := anAsk(1)
			a.Limit = l
			return &charge.Transaction{Charges: []charge.Charge{a}}
		}
		answered := func(g *charge.Transaction, left limit.Tokens, storeNow int64) {
			out := limit.Outcome{Tokens: left * limit.Token, Bucket: limit.Bucket{Cap: 50 * limit.Token}, Reset: 1}
			answerOne(e, g, &lua.Result{Allowed: true, Limits: []limit.Outcome{out}}, storeNow, now, now)
		}
		first, later := ask(), ask()
		for _, g := range []*charge.Transaction{first, later} {
			e.Sent([]*charge.Transaction{g}, &charge.Header{Epoch: "e1"})
		}
		now += second
		answered(later, 10, 100_000_002)
		change := ask()
		e.Applying(change, "e1")
		answered(first, 40, 100_000_001)
		e.Applied(change, make([]limit.Bucket, 1), nil)
		passed := 0
		for a := anAsk(1); passed < 100; passed++ {
			if a.Limit = l; !e.Take([]*charge.Charge{&a}, false, "e1", make([]limit.Outcome, 1)) {
				break
			}
		}
		if passed > 10 {
			t.Errorf("%v: %d passed, 10 were left", l.Algorithm, passed)
		}
	}
}

// TestWhatIsAdmittedMeanwhileComesOutOfTheLoan: a call that wants to borrow is under way, and requests are
// admitted here. What the store has lent pays for them, and only the rest may be spent.
func TestWhatIsAdmittedMeanwhileComesOutOfTheLoan(t *testing.T) {
	now := 100 * second
	e := New(func() budget.Instant { return now }, storeclock.New(), nil)
	a := anAsk(1)
	answeredFull(e, a, now)
	a.Chunk = limit.ChunkView{Want: 12 * limit.Token, Least: limit.Token, Life: 100_000}
	g := &charge.Transaction{Charges: []charge.Charge{a}}
	e.Sent([]*charge.Transaction{g}, &charge.Header{Epoch: "first"})
	for range 5 {
		other := anAsk(1)
		if !e.Take([]*charge.Charge{&other}, false, "first", make([]limit.Outcome, 1)) {
			t.Fatal("what the store said is not remembered")
		}
	}
	lends := lua.Result{Allowed: true, Limits: []limit.Outcome{{Tokens: 37 * limit.Token, Bucket: limit.Bucket{Cap: 50 * limit.Token, Rate: a.Limit.Rate}, Lent: 12 * limit.Token, LentUntil: 200_000, LentFor: 100_000}}}
	answerOne(e, g, &lends, 2, now, now)
	if got, spent := lends.Limits[0].Lent, g.Charges[0].Spent; got != 7*limit.Token || spent != 5*limit.Token || e.Owes() {
		t.Errorf("%d of 12 tokens may be spent and %d are, want 7 and 5; something is owed: %t", got/limit.Token, spent/limit.Token, e.Owes())
	}
}

// TestAnswersAreDatedByTheirOwnNodes: two calls of one key end in the order opposite to that of the store's decisions. The
// earlier call also asked another node, whose clock is ahead; the later one did not.
func TestAnswersAreDatedByTheirOwnNodes(t *testing.T) {
	now := 100 * second
	clock := storeclock.New()
	clock.Add(storeclock.Sample{Store: 100_000_000, Sent: now, Received: now})
	e := New(func() budget.Instant { return now }, clock, nil)
	both := &charge.Transaction{Charges: []charge.Charge{anAsk(1), anAsk(2)}}
	alone := &charge.Transaction{Charges: []charge.Charge{anAsk(1)}}
	for _, g := range []*charge.Transaction{both, alone} {
		e.Sent([]*charge.Transaction{g}, &charge.Header{Epoch: "e1"})
	}
	now += second / 100
	left := func(tokens limit.Tokens) limit.Outcome {
		return limit.Outcome{Tokens: tokens * limit.Token, Bucket: limit.Bucket{Cap: 50 * limit.Token}}
	}
	answerOne(e, both, &lua.Result{Allowed: true, Limits: []limit.Outcome{left(20), left(40)}, Clocks: []int64{100_000_000, 100_005_000}}, 100_005_000, now, now)
	answerOne(e, alone, &lua.Result{Allowed: true, Limits: []limit.Outcome{left(10)}}, 100_001_000, now, now)
	passed := 0
	for a := anAsk(1); e.Take([]*charge.Charge{&a}, false, "e1", make([]limit.Outcome, 1)); passed++ {
	}
	if passed > 10 {
		t.Errorf("%d passed, 10 were left", passed)
	}
}

// answerOne gives a limit the store's answer to the only group of a call.
func answerOne(e *Limit, g *charge.Transaction, r *lua.Result, storeNow int64, received, latest budget.Instant) {
	e.Answered([]*charge.Transaction{g}, []lua.Result{*r}, storeNow, received, latest)
}
