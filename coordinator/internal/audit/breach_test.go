package audit

import (
	"testing"

	"aliquot/budget"
	"aliquot/budget/promise"
)

// TestBreachIsToldWithItsEvidence: what was admitted where, in which interval, and
// what was allowed in it.
func TestBreachIsToldWithItsEvidence(t *testing.T) {
	y := New(0, strictly, 0)
	y.AddReport(usage(0, 1, 100), second(0), always)
	y.AddReport(usage(1, 2, 9), second(1), always)
	if len(y.breaches) != 0 {
		t.Fatalf("%+v; 109 in a second are within 100 + 10", y.breaches)
	}
	y.AddReport(usage(2, 3, 31), second(1), always)
	if len(y.breaches) != 1 {
		t.Fatalf("%d breaches, want one: 140 in a second of 100 + 10", len(y.breaches))
	}
	b := y.breaches[0]
	if b.From != 0 || b.To != second(1) || !near(b.Admitted, 140) || !near(b.Allowed, 110) || !near(b.Capacity, 100) || b.Excess != 0 || !near(b.Rate, 10) {
		t.Errorf("%+v", b)
	}
	if len(b.ByRegion) != 3 || !near(b.ByRegion[0], 100) || !near(b.ByRegion[1], 9) || !near(b.ByRegion[2], 31) {
		t.Errorf("by region %v, want 100, 9 and 31", b.ByRegion)
	}
	sum := 0.0
	for _, admitted := range b.ByRegion {
		sum += admitted
	}
	if !near(sum, b.Admitted) {
		t.Errorf("the regions' parts %v do not sum to %v", b.ByRegion, b.Admitted)
	}
}

// TestBreachIsToldAgainWhileItGrows: and not with every report.
func TestBreachIsToldAgainWhileItGrows(t *testing.T) {
	y := New(0, strictly, 0)
	admitted := int64(100)
	y.AddReport(usage(0, 1, admitted), second(0), always)
	for s := 1.; s <= 30; s++ {
		admitted += 13 // 3 a second too much
		y.AddReport(usage(0, 1, admitted), second(s), always)
	}
	// 3 beyond at first, then at each tenth of 100 more: 15, 27, 39, 51, 63, 75, 87.
	if got := len(y.breaches); got != 8 {
		t.Errorf("told %d times, want 8", got)
	}
	y.breaches = nil
	y.AddReport(usage(0, 1, admitted), second(60), always)
	y.AddReport(usage(0, 1, admitted), second(100), always)
	y.AddReport(usage(0, 1, admitted), second(100.1), always)
	y.AddReport(usage(0, 1, admitted+150), second(100.2), always)
	if got := len(y.breaches); got != 1 {
		t.Errorf("a new breach after the old one was over: told %d times", got)
	}
}

// TestADecisionThatIsObservedLate: the answer before came 1.85 s ago. The report before that may have lacked what the
// store had decided in the 0.3 s until then. So 121.5 may have been admitted of 100 and 10 a second.
func TestADecisionThatIsObservedLate(t *testing.T) {
	for admitted, want := range map[int64]int{122: 0, 126: 1} {
		y := New(0, strictly, 0)
		for s := range 100 {
			y.AddReport(usage(0, 1, 0), second(float64(s)/20), always)
		}
		y.AddReport(usage(0, 1, admitted), second(6.8), always)
		if got := len(y.TakeBreaches()); got != want {
			t.Errorf("%d admitted: %d breaches, want %d", admitted, got, want)
		}
	}
}

// TestReportsWithoutALimit: they show when a key was used. What was admitted then, maybe by the limit of other rules, is
// not compared with the limit that a later report tells.
func TestReportsWithoutALimit(t *testing.T) {
	for _, known := range []bool{false, true} {
		y := New(0, strictly, 0)
		if known {
			y.AddReport(usage(0, 1, 10), second(0), always)
		}
		at := 0.
		for admitted := int64(10); admitted <= 400; admitted += 10 {
			at += .1
			report := usage(0, 1, admitted)
			report.Keys[0].Limit = budget.KeyLimit{}
			y.AddReport(report, second(at), always)
		}
		y.AddReport(usage(0, 1, 410), second(at+.1), always)
		if found := y.TakeBreaches(); len(found) != 0 {
			t.Errorf("10 within a tenth of a second: %+v", found)
		}
		if got := y.Totals()[1].Admitted[0]; !near(got, 410) {
			t.Errorf("%v admitted in all, want 410", got)
		}
		y.AddReport(usage(0, 1, 510), second(at+.2), always)
		y.AddReport(usage(0, 1, 610), second(at+.3), always)
		if len(y.TakeBreaches()) == 0 {
			t.Error("210 within three tenths of a second of 100 and 10 a second were not noticed")
		}
	}
}

// TestARefundWithoutALimit: a settlement is no request, so a report may tell of it alone. What came back may be used again.
func TestARefundWithoutALimit(t *testing.T) {
	y := New(0, strictly, 0)
	y.AddReport(usage(0, 1, 0), second(0), always)
	y.AddReport(usage(0, 1, 100), second(.1), always)
	settled := usage(0, 1, 100)
	settled.Keys[0].Refunded, settled.Keys[0].Limit = 90*microToken, budget.KeyLimit{}
	y.AddReport(settled, second(.2), always)
	again := usage(0, 1, 190)
	again.Keys[0].Refunded = 90 * microToken
	y.AddReport(again, second(.3), always)
	if found := y.TakeBreaches(); len(found) != 0 {
		t.Errorf("100 of 100 are in use: %+v", found)
	}
}

// TestBreachIsBeyondWhatIsPromised: an elastic limit may admit its excess.
func TestBreachIsBeyondWhatIsPromised(t *testing.T) {
	promised := int64(200)
	y := New(0, func(uint32, budget.KeyLimit) promise.Promise {
		return promise.Promise{Excess: promised * microToken}
	}, 0)
	y.AddReport(usage(0, 1, 300), second(0), always)
	if len(y.breaches) != 0 || !near(y.rules[1].excess.value(), 200) {
		t.Errorf("%d breaches, excess %v; 200 above the capacity were promised", len(y.breaches), y.rules[1].excess.value())
	}
	// A region less: 100 are promised from now on. What was admitted before was right.
	promised, y.promiseVersion = 100, y.promiseVersion+1
	y.AddReport(usage(0, 1, 301), second(1), always)
	if len(y.breaches) != 0 || y.rules[1].excess.value() != 0 {
		t.Errorf("%d breaches, excess %v by a promise that did not hold then", len(y.breaches), y.rules[1].excess.value())
	}
	y.AddReport(usage(0, 1, 301), second(1.4), always)
	y.AddReport(usage(0, 1, 301), second(1.5), always)
	y.AddReport(usage(0, 1, 520), second(1.6), always)
	if len(y.breaches) != 1 {
		t.Error("218 at once of a limit of 100 and an excess of 100 were not noticed")
	}
}

// TestAuditGoesOnInTheNextReign: a change of floors or a short loss of the leadership
// does not hide an excess.
func TestAuditGoesOnInTheNextReign(t *testing.T) {
	y := New(20_000, strictly, 0)
	y.AddReport(usage(0, 1, 90), second(1), always)
	y = y.Resume(20_000, strictly, second(2))
	y.AddReport(usage(0, 1, 5), second(3), always) // session 1 of another leader
	y.AddReport(usage(1, 2, 45), second(3), always)
	if got := y.rules[1].admitted[0]; !near(got, 95) {
		t.Errorf("%v admitted in region 0, want 90 and 5", got)
	}
	if got := y.rules[1].excess.value(); !near(got, 140-100-3*10.2) {
		t.Errorf("excess %v, want 140 in three seconds - 100 - 3 x 10.2", got)
	}
	if len(y.breaches) != 1 || !near(y.breaches[0].ByRegion[0], 95) {
		t.Errorf("%+v", y.breaches)
	}
	if y = y.Resume(10_000, strictly, second(4)); len(y.keys) != 0 || len(y.rules) != 0 {
		t.Error("another rho is another promise")
	}
	var none *Audit
	if y = none.Resume(0, strictly, 0); y == nil || y.keys == nil {
		t.Error("the first epoch begins with nothing")
	}
}

// TestAuditForgetsColdKeysInTurn: its memory follows the hot table, at a bounded cost a
// tick.
func TestAuditForgetsColdKeysInTurn(t *testing.T) {
	const n = 4 * sweepKeys
	y := New(0, strictly, 0)
	report := usage(0, 1, 5)
	for i := range n {
		k := usage(0, 1, 5).Keys[0]
		k.Key.Hash[0], k.Key.Hash[1] = byte(i), byte(i>>8)
		report.Keys = append(report.Keys, k)
	}
	report.Keys = report.Keys[1:]
	y.AddReport(report, 0, always)
	if len(y.keys) != n || y.rules[1].keys != n || !near(y.rules[1].refillRate, 10*n) {
		t.Fatalf("%d keys, the rule has %d that refill %v", len(y.keys), y.rules[1].keys, y.rules[1].refillRate)
	}
	hot := func(k budget.KeyID) bool { return k.Hash[0]%2 == 0 }
	for range 12 { // some are looked at twice, for others move to the places of those that go
		before := len(y.keys)
		y.Tick(second(1), hot, kept)
		if before-len(y.keys) > sweepKeys {
			t.Fatalf("one tick looked at more than %d keys", sweepKeys)
		}
	}
	if len(y.keys) != n/2 || len(y.keyOrder) != n/2 || y.rules[1].keys != n/2 || !near(y.rules[1].refillRate, 10*n/2) {
		t.Errorf("%d keys, %d in turn, the rule has %d that refill %v; want %d", len(y.keys), len(y.keyOrder), y.rules[1].keys, y.rules[1].refillRate, n/2)
	}
	for range 12 {
		y.Tick(second(1), func(budget.KeyID) bool { return false }, kept)
	}
	if len(y.keys) != 0 || len(y.keyOrder) != 0 || y.rules[1].refillRate != 0 {
		t.Errorf("%d keys, %d in turn, limit %v", len(y.keys), len(y.keyOrder), y.rules[1].refillRate)
	}
}

// TestWhatWasGivenBackMayBeAdmittedAgain, here or, once the tokens have moved, elsewhere:
// that is no breach. What is admitted beyond it is.
func TestWhatWasGivenBackMayBeAdmittedAgain(t *testing.T) {
	refunded := func(rep budget.Report, whole int64) budget.Report {
		rep.Keys[0].Refunded = whole * microToken
		return rep
	}
	y := New(0, strictly, 0)
	y.AddReport(usage(0, 1, 100), second(0), always)
	y.AddReport(refunded(usage(0, 1, 190), 90), second(0), always)
	y.AddReport(refunded(usage(0, 1, 190), 180), second(0), always)
	y.AddReport(usage(1, 2, 80), second(0), always)
	if len(y.breaches) != 0 {
		t.Fatalf("%+v; 270 admitted, of which 180 were given back", y.breaches)
	}
	y.AddReport(usage(2, 3, 30), second(0), always)
	if len(y.breaches) != 1 || !near(y.breaches[0].Admitted, 120) {
		t.Errorf("%+v; 120 were admitted at once and not given back", y.breaches)
	}
}
