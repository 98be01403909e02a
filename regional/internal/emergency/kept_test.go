package emergency

import (
	"testing"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/internal/roster"
	"aliquot/internal/storeclock"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/storeguard"
	"aliquot/rules"
)

// TestContentsLostBeforeTheFirstCheck: a daemon comes back to the contents that its last run knew. If the store loses
// them before a check asks for anything, the daemon still has to tell the next contents what it remembers.
func TestContentsLostBeforeTheFirstCheck(t *testing.T) {
	now := budget.Instant(1e9)
	latest := "contents-1"
	started := func() *Limit {
		return New(func() budget.Instant { return now }, storeclock.New(), func() string { return latest })
	}
	last := started()
	last.InSession(now)
	last.see("contents-1", now)
	kept := last.Keep()
	if kept == nil || kept.Contents != "contents-1" {
		t.Fatalf("the last run kept %+v", kept)
	}
	e := started()
	e.Return(kept, true)
	e.Resume("contents-1")
	e.InSession(now)
	if e.table.Remembers() {
		t.Fatal("it would tell the store of records that the store has")
	}
	latest = "contents-2"
	e.see("contents-2", now)
	if !e.table.Remembers() {
		t.Error("it tells the next contents nothing")
	}
}

// startedAlone returns the limit of a daemon that is certain to be its region's only one.
func startedAlone(now *budget.Instant, latest *string) *Limit {
	e := New(func() budget.Instant { return *now }, storeclock.New(), func() string { return *latest })
	e.Beside(false, roster.Certain)
	return e
}

// TestWhatAnotherDaemonSpentBeforeARestart: another daemon of the region was there for a while, and has left in order.
// What this one remembers of before counts neither in the rest of this run nor in the next one.
func TestWhatAnotherDaemonSpentBeforeARestart(t *testing.T) {
	for _, sameClock := range []bool{true, false} {
		now, latest := 1000*second, "contents-1"
		told := func(e *Limit, n uint64, enforcement string) limit.Tokens {
			a := anAsk(n)
			a.Enforcement = enforcement
			g := &charge.Transaction{Charges: []charge.Charge{a}}
			e.Sent([]*charge.Transaction{g}, &charge.Header{Epoch: latest})
			if g.Charges[0].Memory == nil {
				return -1
			}
			return g.Charges[0].Memory.Tokens
		}
		last := startedAlone(&now, &latest)
		a := anAsk(1)
		answeredAs(last, a, latest, now)
		now += 10 * second
		last.Beside(true, roster.Certain)
		now += 10 * second
		last.Beside(false, roster.Certain)
		now += second / 10 // five tokens are earned, of what is the region's alone ten
		last.InSession(now)
		kept := last.Keep()
		if !sameClock {
			now = 5 * second
		}
		e := startedAlone(&now, &latest)
		e.Return(kept, sameClock)
		latest = "contents-2"
		e.Learned()
		e.Resume(latest)
		e.InSession(now)
		for n, enforcement := range map[uint64]string{1: rules.Strict, 2: rules.Strict, 3: rules.Independent} {
			if got := told(e, n, enforcement); got < 0 || got > 10*limit.Token {
				t.Errorf("key %d, the same clock %t: the store is told of %v, and the other daemon may have spent all but 10", n, sameClock, got)
			}
		}
	}
}

// TestNothingIsLeftWhileADaemonHoldsBack: a daemon that comes back must not spend yet. It shows no tokens either, because
// what a limit shows is what its clients get.
func TestNothingIsLeftWhileADaemonHoldsBack(t *testing.T) {
	now, latest := 1000*second, "contents-1"
	last, a := startedAlone(&now, &latest), anAsk(1)
	answeredAs(last, a, latest, now)
	last.InSession(now)
	e := startedAlone(&now, &latest)
	e.Return(last.Keep(), true)
	latest = "contents-2"
	e.Learned()
	e.Resume(latest)
	e.InSession(now)
	now += 10 * second
	take := func() (bool, limit.Outcome) {
		a, out := anAsk(1), make([]limit.Outcome, 1)
		return e.Take([]*charge.Charge{&a}, false, latest, out), out[0]
	}
	if allowed, out := take(); allowed || out.Tokens >= a.Cost {
		t.Errorf("allowed: %t, with %v left, before the first session", allowed, out.Tokens)
	}
	e.Opened()
	if allowed, out := take(); !allowed || out.Tokens < a.Cost {
		t.Errorf("allowed: %t, with %v left, in the first session", allowed, out.Tokens)
	}
}

// TestContentsAreLearnedWithoutACheck: the store has lost its contents, and no check comes for a while. What counts is
// whether this daemon had the session when that was learned.
func TestContentsAreLearnedWithoutACheck(t *testing.T) {
	for name, is := range map[string]struct {
		checked       bool // a check came before the loss
		before, after bool // a coordinator has answered before the loss, and again long after it
		remembers     bool
	}{
		"heard before":             {before: true, remembers: true},
		"heard before and checked": {checked: true, before: true, remembers: true},
		"heard after and checked":  {checked: true, after: true},
		"all":                      {checked: true, before: true, after: true, remembers: true},
	} {
		now, latest := 100*second, ""
		e := New(func() budget.Instant { return now }, storeclock.New(), func() string { return latest })
		learn := func(contents string) {
			latest = contents
			e.Learned()
		}
		check := func(n uint64) *limit.Memory {
			a := anAsk(n)
			a.Limit.Rate.Micro = int64(limit.Token)
			g := &charge.Transaction{Charges: []charge.Charge{a}}
			e.Sent([]*charge.Transaction{g}, &charge.Header{Epoch: latest})
			return g.Charges[0].Memory
		}
		learn("contents-1")
		if is.checked {
			check(2)
		}
		now += 1000 * second
		if is.before {
			e.InSession(now)
		}
		learn("contents-2")
		now += 10 * second
		if is.after {
			e.InSession(now)
		}
		m := check(1)
		if told := m != nil && m.Tokens == 50*limit.Token; told != is.remembers {
			t.Errorf("%s: the store is told %+v, want all of a key that was never used: %t", name, m, is.remembers)
		}
	}
}

// TestARestartAfterALoss: the store loses its contents, and the daemon stops before it has told the new ones of every key.
// Its next run finds these contents, and has to tell the rest. What calls may have taken that were under way when the
// contents were lost is not left.
func TestARestartAfterALoss(t *testing.T) {
	now, latest := 1000*second, "contents-1"
	started := func() *Limit {
		return New(func() budget.Instant { return now }, storeclock.New(), func() string { return latest })
	}
	send := func(e *Limit, n uint64, cost limit.Tokens) *charge.Transaction {
		a := anAsk(n)
		a.Cost, a.Limit.Rate.Micro = cost, 1
		g := &charge.Transaction{Charges: []charge.Charge{a}}
		e.Sent([]*charge.Transaction{g}, &charge.Header{Epoch: latest})
		return g
	}
	last := started()
	last.Learned()
	left := lua.Result{Allowed: true, Limits: []limit.Outcome{{Tokens: 30 * limit.Token, Bucket: limit.Bucket{Cap: 50 * limit.Token, Rate: limit.Rate{Micro: 1}}}}}
	for n := range uint64(2) {
		answerOne(last, send(last, n, 0), &left, 1, now, now)
	}
	send(last, 1, 10*limit.Token) // it is under way
	last.InSession(now)
	latest = "contents-2"
	last.Learned()
	kept := last.Keep()
	if kept == nil || kept.Contents != latest {
		t.Fatalf("the last run kept %+v", kept)
	}
	e := started()
	e.Return(kept, true)
	e.Learned()
	e.Resume(latest)
	e.InSession(now)
	for n, want := range []limit.Tokens{30 * limit.Token, 20 * limit.Token} {
		if m := send(e, uint64(n), 0).Charges[0].Memory; m == nil || m.Tokens != want {
			t.Errorf("key %d: the store is told %+v, want %v", n, m, want)
		}
		passed, a := limit.Tokens(0), anAsk(uint64(n))
		for a.Limit.Rate.Micro = 1; e.Take([]*charge.Charge{&a}, false, latest, make([]limit.Outcome, 1)); passed += limit.Token {
		}
		if passed != want {
			t.Errorf("key %d: %v passed without the store, want %v", n, passed, want)
		}
	}
}

// TestAClockThatStoppedHoldsNoSession: a coordinator has answered, and this machine's clock stops for a while. Another daemon
// may have spent meanwhile. So nothing is told to contents that are found then, nor kept for the next run, until a
// coordinator has answered again.
func TestAClockThatStoppedHoldsNoSession(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		now, latest := 1000*second, "contents-1"
		e := New(func() budget.Instant { return now }, storeclock.New(), func() string { return latest })
		answeredAs(e, anAsk(1), latest, now)
		e.InSession(now)
		if stopped {
			sent := now
			now += second / 10
			e.ClockStopped()
			e.InSession(sent) // a report that was on its way meanwhile
		}
		if kept := e.Keep(); (kept == nil) != stopped {
			t.Errorf("the clock has stopped: %t; it keeps %+v", stopped, kept)
		}
		latest = "contents-2"
		e.Learned()
		if e.table.Remembers() == stopped {
			t.Errorf("the clock has stopped: %t; it tells other contents what it remembers: %t", stopped, !stopped)
		}
		e.InSession(now)
		latest = "contents-3"
		if e.Learned(); !e.table.Remembers() || e.Keep() == nil {
			t.Errorf("the clock has stopped: %t, a coordinator has answered since; nothing is remembered", stopped)
		}
	}
}

// TestWhatIsAdmittedBeforeTheStoreIsBack: a daemon comes back before its store, and admits by a rule of this region alone.
// That is owed, and all that the last run remembered still counts.
func TestWhatIsAdmittedBeforeTheStoreIsBack(t *testing.T) {
	for _, sameClock := range []bool{true, false} {
		now, latest := 10000*second, "contents-1"
		ask := func(n uint64, enforcement string) charge.Charge {
			a := anAsk(n)
			a.Enforcement, a.Limit.Rate.Micro = enforcement, int64(limit.Token)
			if enforcement == rules.Independent {
				a.Right = entitlement.Whole(a.Right)
			}
			return a
		}
		started := func() *Limit {
			return New(func() budget.Instant { return now }, storeclock.New(), func() string { return latest })
		}
		last := started()
		last.Learned()
		left := lua.Result{Allowed: true, Limits: []limit.Outcome{{Tokens: 30 * limit.Token, Bucket: limit.Bucket{Cap: 50 * limit.Token, Rate: limit.Rate{Micro: int64(limit.Token)}}}}}
		for n, enforcement := range map[uint64]string{1: rules.Strict, 2: rules.Independent} {
			g := &charge.Transaction{Charges: []charge.Charge{ask(n, enforcement)}}
			last.Sent([]*charge.Transaction{g}, &charge.Header{Epoch: latest})
			answerOne(last, g, &left, 1, now, now)
		}
		last.InSession(now)
		kept := last.Keep()
		if now += second; !sameClock {
			now = 5000 * second
		}
		latest = ""
		e := started()
		e.Return(kept, sameClock)
		now += 4 * second
		for _, n := range []uint64{2, 3} {
			a := ask(n, rules.Independent)
			for passed := 0; passed < 3; passed++ {
				if !e.Take([]*charge.Charge{&a}, false, latest, make([]limit.Outcome, 1)) {
					t.Fatal("nothing was admitted: nothing is shown")
				}
			}
		}
		latest = "contents-2"
		e.Learned()
		e.Resume(latest)
		e.Opened()
		e.InSession(now)
		for n, want := range map[uint64]struct{ least, most, owed limit.Tokens }{1: {30, 36, 0}, 2: {30, 36, 3}, 3: {3, 4, 3}} {
			enforcement := rules.Independent
			if n == 1 {
				enforcement = rules.Strict
			}
			g := &charge.Transaction{Charges: []charge.Charge{ask(n, enforcement)}}
			e.Sent([]*charge.Transaction{g}, &charge.Header{Epoch: latest})
			m, owed := g.Charges[0].Memory, carriedBy(&g.Charges[0])
			if m == nil || m.Tokens < want.least*limit.Token || m.Tokens > want.most*limit.Token || owed != want.owed*limit.Token {
				t.Errorf("key %d, the same clock %t: the store is told %+v less %v", n, sameClock, m, owed)
			}
		}
	}
}

// TestWhatTheNextRunSpendsBeforeItIsDecided: a daemon comes back to the contents that its last run knew, and spends by
// them. Before a coordinator has answered the store loses them. What the last run remembered does not have what this one
// has spent.
func TestWhatTheNextRunSpendsBeforeItIsDecided(t *testing.T) {
	for _, spends := range []bool{true, false} {
		now, latest := 1000*second, "contents-1"
		started := func() *Limit {
			return New(func() budget.Instant { return now }, storeclock.New(), func() string { return latest })
		}
		last := started()
		answeredAs(last, anAsk(1), latest, now)
		last.InSession(now)
		kept := last.Keep()
		e := started()
		e.Return(kept, true)
		if e.Learned(); spends {
			a := anAsk(1)
			a.Limit.Rate.Micro = 1
			g := &charge.Transaction{Charges: []charge.Charge{a}}
			e.Sent([]*charge.Transaction{g}, &charge.Header{Epoch: latest})
			none := lua.Result{Allowed: true, Limits: []limit.Outcome{{Bucket: limit.Bucket{Cap: 50 * limit.Token, Rate: limit.Rate{Micro: 1}}}}}
			answerOne(e, g, &none, 2, now, now)
		}
		latest = "contents-2"
		e.Learned()
		e.Resume(latest)
		e.InSession(now)
		g := &charge.Transaction{Charges: []charge.Charge{anAsk(1)}}
		e.Sent([]*charge.Transaction{g}, &charge.Header{Epoch: latest})
		if m := g.Charges[0].Memory; (m == nil || m.Tokens == 0) != spends {
			t.Errorf("it has spent all that was left: %t; the store is told %+v", spends, m)
		}
	}
}

// TestALimitThatHasChanged: the daemon has been there for 20 seconds when limits change, and the store falls silent 100 ms
// later. A client that was never seen has the region's 50 tokens, also if its limit earned more before. If it earned one
// token a second, of which the region had a half, the client has 9: what clocks may differ by comes off. The store is told
// the same of a record that it may not have.
func TestALimitThatHasChanged(t *testing.T) {
	for name, is := range map[string]struct {
		former limit.Tokens // a second; 0: the limit has not changed
		want   int
	}{"not at all": {0, 50}, "slowed": {100_000, 50}, "quickened": {1, 9}} {
		now := 980 * second
		e := New(func() budget.Instant { return now }, storeclock.New(), nil)
		e.InSession(now)
		e.Beside(false, roster.Certain)
		now = 1000*second + second/10
		e.InSession(now)
		a, passed := anAsk(1), 0
		if is.former > 0 {
			a.Changed = &entitlement.Change{At: 1000 * second, Cap: a.Limit.Capacity, Small: a.Limit.Capacity, Slow: limit.Rate{Micro: int64(is.former * limit.Token)}}
		}
		g := &charge.Transaction{Charges: []charge.Charge{a}, Peek: true}
		e.Sent([]*charge.Transaction{g}, &charge.Header{})
		e.Failed([]*charge.Transaction{g}, storeguard.ErrBusy, now)
		if held := g.Charges[0].Held; (held != nil) != (is.former > 0) || held != nil && held.Amount/limit.Token != limit.Tokens(is.want) {
			t.Errorf("%s: the store is told %+v, want %d", name, held, is.want)
		}
		for e.Take([]*charge.Charge{&a}, false, "", make([]limit.Outcome, 1)) {
			passed++
		}
		if passed != is.want {
			t.Errorf("%s: %d pass, want %d", name, passed, is.want)
		}
	}
}
