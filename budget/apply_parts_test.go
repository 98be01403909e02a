package budget

import (
	"slices"
	"testing"
	"time"
)

// opening is a world of two regions whose leader was replaced while many keys were hot. The first
// region's store has not answered yet; parts are what it has to apply.
type opening struct {
	*world
	parts []ApplyShares
	keys  []KeyID
}

// newOpening returns a world with the given number of hot keys. The first region holds half of each
// and is told its floor, in parts of the given size.
func newOpening(t *testing.T, keys, part int) *opening {
	o := &opening{world: newWorld(t, 2)}
	r, now := o.regions[0], o.now
	r.ApplyAtMost(part)
	r.Step(RegionTick{}, now)
	var actions []Action
	for i := range keys {
		k := KeyID{Rule: 2, Hash: [16]byte{byte(i)}}
		o.keys = append(o.keys, k)
		actions = append(actions, Action{Key: k, Gen: Gen{Epoch: 7, Counter: uint64(10 + i)}, Share: Share{Unit / 4, Unit / 4}, Limit: o.limit})
	}
	o.take(r.Step(HelloAnswered{
		OK: HelloOK{Epoch: 7, Session: 1, Nonce: 1, Watermark: Gen{Epoch: 7, Counter: 500}, Actions: actions}, Config: o.ledger.Config,
	}, now))
	return o
}

// take keeps the parts of effects, and returns the reports and Hellos.
func (o *opening) take(effects []RegionEffect) (reports []Report, hellos []Hello) {
	for _, e := range effects {
		switch e := e.(type) {
		case ApplyShares:
			o.parts = append(o.parts, e)
		case SendReport:
			reports = append(reports, e.Report)
		case SendHello:
			hellos = append(hellos, e.Hello)
		}
	}
	return reports, hellos
}

// answer lets the store answer the latest part.
func (o *opening) answer(failed bool) (reports []Report) {
	var done SharesApplied
	for _, c := range o.parts[len(o.parts)-1].Changes {
		done.Results = append(done.Results, ShareResult{Key: c.Key, Failed: failed})
	}
	reports, _ = o.take(o.regions[0].Step(done, o.now))
	return reports
}

// pass lets time pass without a leader, in ticks.
func (o *opening) pass(d time.Duration) (reports []Report, hellos []Hello) {
	for end := o.now.Add(d); o.now < end; {
		o.now = o.now.Add(tick)
		r, h := o.take(o.regions[0].Step(RegionTick{}, o.now))
		reports, hellos = append(reports, r...), append(hellos, h...)
	}
	return reports, hellos
}

// heard answers a report of a session that is being opened.
func (o *opening) heard(r Report) {
	o.take(o.regions[0].Step(DirectiveReceived{Directive{Epoch: 7, Session: 1, Seq: r.Seq, TSend: r.TSend}}, o.now))
}

func TestADirectiveIsAppliedInParts(t *testing.T) {
	o := newOpening(t, 5, 2)
	for i, want := range []int{2, 2, 1} {
		p := o.parts[len(o.parts)-1]
		if len(o.parts) != i+1 || len(p.Changes) != want || p.Follows != (i > 0) || p.Changes[0].Key != o.keys[2*i] {
			t.Fatalf("part %d: %+v", i, p)
		}
		if o.regions[0].Session() != (SessionID{}) || o.regions[0].LatestSession() != (SessionID{7, 1}) {
			t.Errorf("part %d: the session is open before all is applied", i)
		}
		if info := o.regions[0].Info(o.now); info.Applying != 5 || info.Applied != 2*i {
			t.Errorf("part %d: %d of %d keys", i, info.Applied, info.Applying)
		}
		o.answer(false)
	}
	if len(o.parts) != 3 || o.regions[0].Session() != (SessionID{7, 1}) {
		t.Errorf("%d parts, session %v", len(o.parts), o.regions[0].Session())
	}
}

// A key of a later part may have a record that an earlier session wrote. Once the region knows all
// generations up to that record's, a cold view takes the record for the rest of a key that has
// cooled down. So the region must not say so before.
func TestTheWatermarkWaitsForTheLastPart(t *testing.T) {
	o := newOpening(t, 5, 2)
	for range 2 {
		o.answer(false)
		if right := o.regions[0].Right(o.keys[4], o.limit, o.now); right.Watermark != (Gen{}) || right.Hot {
			t.Errorf("a key whose share is not applied: %+v", right)
		}
	}
	if right := o.regions[0].Right(o.keys[1], o.limit, o.now); !right.Hot || right.Gen != (Gen{7, 11}) {
		t.Errorf("one whose share is: %+v", right)
	}
	if !o.regions[0].blind {
		t.Error("it claims to know every hot key")
	}
	o.answer(false)
	if right := o.regions[0].Right(o.keys[4], o.limit, o.now); right.Watermark != (Gen{7, 500}) || right.Blind {
		t.Errorf("all is applied: %+v", right)
	}
}

func TestProgressIsReportedAndAcknowledgesKeys(t *testing.T) {
	o := newOpening(t, 5, 2)
	o.answer(false)
	reports, _ := o.pass(progressEvery)
	if len(reports) != 1 {
		t.Fatalf("%d reports", len(reports))
	}
	r := reports[0]
	if !r.Opening || r.Session != 1 || r.Seq != 1 || r.Ack != 0 || len(r.Keys) != 2 || r.Keys[0].Gen != (Gen{7, 10}) {
		t.Errorf("the first: %+v", r)
	}
	o.heard(r)
	o.answer(false)
	if reports, _ = o.pass(progressEvery); len(reports) != 1 || !reports[0].Opening || reports[0].Ack != 1 || len(reports[0].Keys) != 2 {
		t.Errorf("the second: %+v", reports)
	}
	o.heard(reports[0])
	o.answer(false)
	if reports, _ = o.pass(2 * tick); len(reports) != 1 || reports[0].Opening || reports[0].Seq != 3 || reports[0].Ack != 2 {
		t.Errorf("when all is applied: %+v", reports)
	}
}

// What was applied when the session ends is held, and the next Hello says so.
func TestProgressOutlastsItsSession(t *testing.T) {
	for _, ends := range []struct {
		name string
		how  func(*opening)
	}{
		{"a part fails", func(o *opening) { o.answer(true) }},
		{"a report is refused", func(o *opening) {
			o.pass(progressEvery)
			o.take(o.regions[0].Step(CallFailed{}, o.now))
			o.answer(false)
		}},
		{"the store's contents are others", func(o *opening) {
			o.take(o.regions[0].Step(StoreEpoch{"another"}, o.now))
			o.answer(false)
		}},
	} {
		t.Run(ends.name, func(t *testing.T) {
			o := newOpening(t, 9, 2)
			o.answer(false)
			o.answer(false)
			ends.how(o)
			parts := len(o.parts)
			_, hellos := o.pass(time.Second)
			if len(hellos) != 1 || len(o.parts) != parts || o.regions[0].LatestSession() != (SessionID{}) {
				t.Fatalf("%d Hellos, %d more parts", len(hellos), len(o.parts)-parts)
			}
			if held := hellos[0].Held; len(held) < 4 || held[3].Gen != (Gen{7, 13}) || held[3].Share != (Share{Unit / 4, Unit / 4}) {
				t.Errorf("it holds %+v", held)
			}
		})
	}
}

// A lease that ends while shares are being applied takes nothing away from them.
func TestALeaseMayEndWhileASessionOpens(t *testing.T) {
	o := newOpening(t, 5, 2)
	o.regions[0].leaseEnd = o.now.Add(time.Second)
	for range 3 {
		reports, hellos := o.pass(progressEvery)
		if len(reports) != 1 || len(hellos) != 0 {
			t.Fatalf("%d reports, %d Hellos", len(reports), len(hellos))
		}
		o.heard(reports[0])
	}
	for range 3 {
		o.answer(false)
	}
	if o.regions[0].Phase(o.now) != Limbo || o.regions[0].Session() != (SessionID{7, 1}) {
		t.Errorf("phase %v, session %v", o.regions[0].Phase(o.now), o.regions[0].Session())
	}
}

// slow returns a world whose first region lends a key, and whose leader was replaced. Until release
// is called, the region's store does not apply the answer to the Hello.
func slow(t *testing.T) (w *world, release func()) {
	w = started(t, 3)
	w.load[1] = 10
	w.runUntil("b has the rate", 3*time.Second, func() bool { return w.rate(1) >= 980 })
	held := []ApplyShares{}
	w.hold = func(i int, e ApplyShares) bool {
		if i == 0 {
			held = append(held, e)
		}
		return i == 0
	}
	// The region has to be told its share: it says that it holds another one than the ledger has.
	w.regions[0].hot[w.key].gen.Counter--
	w.regions[0].hot[w.key].share = Share{}
	w.elect()
	return w, func() {
		w.hold = nil
		for _, e := range held {
			w.act(0, []RegionEffect{e})
		}
	}
}

// For longer than a lease the region sends only reports of progress. Its session stays open, its
// lease is not renewed, and what it lent is not given away.
func TestALeaderKeepsTheSessionOfARegionThatMakesProgress(t *testing.T) {
	w, release := slow(t)
	renewed := w.renewed[0]
	w.run(w.ledger.Config.FloorAfter() + 5*time.Second)
	r := &w.leader.regions[0]
	if !r.open || r.live || r.acked || w.renewed[0] != renewed || w.leader.session != 3 {
		t.Fatalf("open %v, live %v, acknowledged %v, %d renewals, session %d", r.open, r.live, r.acked, w.renewed[0]-renewed, w.leader.session)
	}
	if floor := w.ledger.Config.Regions[0].Floor; !w.leader.reserved(0, w.leader.keys[w.key]).Max(floor).Within(floor) || w.rate(1) > 668 {
		t.Errorf("its floor is not reserved: b has %d per mille", w.rate(1))
	}
	if w.regions[0].Phase(w.now) != Limbo {
		t.Errorf("it is in %v", w.regions[0].Phase(w.now))
	}
	release()
	w.runUntil("all have leases", time.Second, w.allLive)
	if w.leader.session != 3 {
		t.Errorf("it took session %d", w.leader.session)
	}
}

// An acknowledgement of one key counts before all others are applied, and only for that key.
func TestAnAcknowledgedKeyIsLoweredWhileOthersAreApplied(t *testing.T) {
	ledger := &Ledger{Config: NewConfig([]string{"a", "b"}, 10*time.Second, 20_000)}
	ledger.MintEpoch()
	one, two := KeyID{Rule: 1}, KeyID{Rule: 2}
	most := []Share{{Unit / 2, Unit / 2}, {}}
	if err := ledger.Apply(Plan{Epoch: 1, Changes: []Entry{{one, slices.Clone(most)}, {two, slices.Clone(most)}}}); err != nil {
		t.Fatal(err)
	}
	now := Instant(time.Hour)
	l := NewLeader(ledger.Clone(), now)
	had := Share{Unit / 4, Unit / 4}
	l.Step(HelloReceived{Hello{Region: 0, Incarnation: 1, Nonce: 1, Held: []Held{{Key: one, Share: had}, {Key: two, Share: had}}}}, now)
	ok := l.Step(Verified{}, now)[0].(Welcome).OK
	if len(ok.Actions) != 2 {
		t.Fatalf("%+v", ok)
	}
	acked := ok.Actions[0]
	before := l.regions[0].leaseEnd
	now = now.Add(5 * time.Second)
	report := Report{Epoch: 1, Session: ok.Session, Seq: 1, TSend: now, Opening: true, Keys: []KeyReport{{Key: acked.Key, Gen: acked.Gen, Share: acked.Share}}}
	l.Step(ReportReceived{report}, now)
	l.sendCold(0, KeyID{Rule: 3}) // news for it, which has to wait
	var plan Plan
	for _, e := range l.Step(Tick{}, now) {
		if c, commit := e.(Commit); commit {
			plan = c.Plan
		}
	}
	if len(plan.Changes) != 1 || plan.Changes[0].Key != acked.Key || plan.Changes[0].Shares[0] != had {
		t.Errorf("the plan is %+v", plan)
	}
	if l.regions[0].live || l.regions[0].leaseEnd <= before {
		t.Errorf("live %v, and what the region had ends after %v", l.regions[0].live, l.regions[0].leaseEnd.Sub(before))
	}
	now = now.Add(AnswerHold)
	answered := l.Step(Tick{}, now)
	if i := slices.IndexFunc(answered, func(e LeaderEffect) bool { _, ok := e.(Answer); return ok }); i < 0 {
		t.Errorf("no answer: %+v", answered)
	} else if d := answered[i].(Answer).Directive; d.Renew || len(d.Actions) > 0 || d.Seq != 1 || len(l.regions[0].cold) != 1 {
		t.Errorf("the answer is %+v", d)
	}
}

// Another daemon of the region may have acknowledged what an answer to a Hello says. If the store
// loses its contents before the answer is applied, no record of that is left.
func TestAnAnswerCountsWhenTheStoreIsLost(t *testing.T) {
	o := newOpening(t, 2, 2)
	r := o.regions[0]
	o.answer(false)
	for _, k := range o.keys {
		if right := r.Right(k, o.limit, o.now); right.Share.Burst != Unit/4 {
			t.Fatalf("the region believes in %+v of key %v", right, k)
		}
	}
	r.Step(CallFailed{}, o.now)
	_, hellos := o.pass(time.Second)
	unknown := KeyID{Rule: 9}
	actions := []Action{{Key: unknown, Gen: Gen{Epoch: 7, Counter: 900}, Limit: o.limit}}
	for i, k := range o.keys {
		actions = append(actions, Action{Key: k, Gen: Gen{Epoch: 7, Counter: uint64(901 + i)}, Share: Share{Unit / 8, Unit / 8}, Limit: o.limit})
	}
	r.ApplyAtMost(2) // the last key is not in the first part
	r.Step(HelloAnswered{
		OK: HelloOK{Epoch: 7, Session: 2, Nonce: hellos[len(hellos)-1].Nonce, Watermark: Gen{Epoch: 7, Counter: 950}, Actions: actions}, Config: o.ledger.Config,
	}, o.now)
	r.Step(StoreEpoch{Epoch: "other contents"}, o.now)
	for _, k := range o.keys {
		if right := r.Right(k, o.limit, o.now); right.Effective().Burst > Unit/8 {
			t.Errorf("the region believes in %+v of key %v", right, k)
		}
	}
	if right := r.Right(unknown, o.limit, o.now); right.Effective() != (Share{}) {
		t.Errorf("the region believes in %+v of a key that it does not know, which may be lent", right)
	}
}

// A bucket that owes tokens after a change, or when its use is examined, has nothing left: a leader refuses a report of less.
func TestADebtIsReportedAsNothingLeft(t *testing.T) {
	w := started(t, 2)
	r, act := w.regions[0], Action{Key: w.key, Gen: Gen{Epoch: 9}, Limit: w.limit}
	r.applying = &applying{}
	for what, told := range map[string]func(ShareResult){
		"change": func(res ShareResult) { r.recordApplied(act, res, w.now) },
		"look":   func(res ShareResult) { r.useChecked(res, w.now) },
	} {
		r.hot[w.key] = &hotKey{tokens: microToken}
		if told(ShareResult{Key: w.key, Tokens: -microToken}); r.hot[w.key].tokens != 0 {
			t.Errorf("%s: %d left", what, r.hot[w.key].tokens)
		}
	}
}
