package audit

import (
	"slices"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/budget/promise"
)

func always(budget.KeyID) bool { return true }
func kept(uint32) bool         { return true }

// strictly promises that nothing is admitted beyond the limit, and that shares move in a
// second.
func strictly(uint32, budget.KeyLimit) promise.Promise {
	return promise.Promise{Measured: true, ToHot: time.Second, ToFollow: time.Second}
}

// second is an instant of the tests' clock.
func second(s float64) budget.Instant { return budget.Instant(s * float64(time.Second)) }

// usage is one region's report of one key of rule 1: capacity 100, rate 10/s. All
// that is offered is admitted.
func usage(region int, session uint64, admitted int64) budget.Report {
	return budget.Report{Region: region, Session: session, Keys: []budget.KeyReport{{
		Key: budget.KeyID{Rule: 1}, Gen: budget.Gen{Epoch: 1, Counter: 1},
		Admitted: admitted * microToken, Offered: admitted * microToken,
		Limit: budget.KeyLimit{Capacity: 100 * microToken, Rate: 10 * microToken},
	}}}
}

// near compares figures that were computed in floats.
func near(got, want float64) bool { return got > want-1e-6 && got < want+1e-6 }

func TestAuditCountsDifferencesWithinASession(t *testing.T) {
	y := New(0, strictly, 0)
	for _, rep := range []budget.Report{usage(0, 7, 5), usage(0, 7, 8), usage(2, 9, 4), usage(0, 8, 2)} {
		y.AddReport(rep, 0, always)
	}
	got := y.rules[1]
	if got.admitted[0] != 10 || got.admitted[2] != 4 || got.offered[0] != 10 {
		t.Errorf("admitted %v, offered %v, want 10 and 4: 5 and 3 of session 7, 2 of session 8", got.admitted, got.offered)
	}
	if sums := y.Totals()[1]; sums.RefillRate != 10 || sums.Admitted[0] != 10 {
		t.Errorf("sums %+v", sums)
	}
}

func TestAuditSeesAnExcess(t *testing.T) {
	y := New(0, strictly, 0)
	y.AddReport(usage(0, 1, 100), second(0), always)
	y.AddReport(usage(1, 2, 20), second(1), always)
	if got := y.rules[1].excess.value(); !near(got, 10) {
		t.Errorf("excess %v, want 120 admitted in the first second - 100 - 10", got)
	}
	// Spent after the answer at second 1, for all that is known in the second after.
	y.AddReport(usage(1, 2, 50), second(2), always)
	if got := y.rules[1].excess.value(); !near(got, 30) {
		t.Errorf("excess %v, want 150 admitted in two seconds - 100 - 20", got)
	}
	if got := y.rules[1].gain; !near(got, 150./120) {
		t.Errorf("gain %v, want 150 of 120", got)
	}
	y.AddReport(usage(1, 2, 51), second(60), always)
	if got := y.rules[1].excess.value(); !near(got, 30) {
		t.Errorf("excess %v; the most that was seen should stay for a while", got)
	}
}

func TestAuditLetsAnExcessGoInTime(t *testing.T) {
	y := New(0, strictly, 0)
	y.AddReport(usage(0, 1, 150), 0, always)
	for s := 10.; s < 600; s += 10 {
		y.Tick(second(s), always, kept)
		got := y.rules[1].excess.value()
		if s < maxKept.Seconds() && !near(got, 50) {
			t.Fatalf("after %v s the excess is %v already", s, got)
		}
	}
	y.Tick(second(600), always, kept)
	if got := y.rules[1].excess.value(); got != 0 {
		t.Errorf("after twice the time it is kept at least, the excess is still %v", got)
	}
}

// TestAuditDoubtsLateReports: what a region that was cut off tells of a minute at
// once was spent in that minute, in which the limit refilled.
func TestAuditDoubtsLateReports(t *testing.T) {
	y := New(0, strictly, 0)
	y.AddReport(usage(1, 2, 0), second(1), always)
	y.AddReport(usage(0, 1, 100), second(1), always) // all of the burst
	for s := 2.; s <= 60; s++ {
		y.AddReport(usage(0, 1, 100+int64(6*(s-1))), second(s), always) // 6 a second
	}
	y.AddReport(usage(1, 2, 3*60), second(61), always) // 3 a second, told late
	if got := y.rules[1].excess.value(); got != 0 {
		t.Errorf("excess %v, want 0: 9 a second of 10 were spent", got)
	}
	// It does know what is spent too much once reports come in time again.
	y.AddReport(usage(1, 2, 3*60), second(61.1), always)
	y.AddReport(usage(1, 2, 3*60+150), second(62), always)
	y.AddReport(usage(0, 1, 100+6*60), second(62), always)
	if got := y.rules[1].excess.value(); got < 30 {
		t.Errorf("excess %v, want what 150 at once are above the burst at least", got)
	}
}

func TestAuditBeginsAgainWhenALimitChanges(t *testing.T) {
	small := usage(0, 1, 310)
	small.Keys[0].Limit = budget.KeyLimit{Capacity: 10 * microToken, Rate: microToken}
	large := usage(0, 1, 100)
	large.Keys[0].Limit = budget.KeyLimit{Capacity: 300 * microToken, Rate: microToken}
	y := New(0, strictly, 0)
	y.AddReport(large, second(1), always)
	y.AddReport(small, second(2), always) // 210 more, under whichever limit
	if got := y.rules[1].excess.value(); got != 0 {
		t.Errorf("excess %v; what was spent under the larger limit says nothing of the smaller", got)
	}
	for s := range 4 {
		small.Keys[0].Admitted += 20 * microToken
		y.AddReport(small, second(3+float64(s)/10), always)
	}
	if got := y.rules[1].excess.value(); got < 20 {
		t.Errorf("excess %v, want 40 in a second of a burst of 10 to be noticed", got)
	}
}

func TestAuditUtilisationAndForgetting(t *testing.T) {
	y := New(20_000, strictly, 0)
	y.AddReport(usage(0, 1, 50), 0, always)
	y.Tick(second(9), always, kept)
	if y.rules[1].utilisation != 0 {
		t.Error("the window is not over")
	}
	y.Tick(second(10), always, kept)
	if got := y.rules[1]; !near(got.utilisation, 0.5) || !near(got.lastGain, 0.5) {
		t.Errorf("utilisation %v, want 50 of 10/s x 10 s; gain %v, want 50 of 100", got.utilisation, got.lastGain)
	}
	none := func(budget.KeyID) bool { return false }
	y.Tick(second(20), none, kept)
	if len(y.keys) != 0 || y.rules[1].utilisation != 0 || y.rules[1].lastGain != 0 {
		t.Errorf("%d keys left, utilisation %v, gain %v", len(y.keys), y.rules[1].utilisation, y.rules[1].lastGain)
	}
	y.Tick(second(30), none, func(uint32) bool { return false })
	if len(y.rules) != 0 {
		t.Error("a rule that is gone should be forgotten")
	}
}

func TestAuditIgnoresWhatTheLedgerDoesNotHave(t *testing.T) {
	y := New(0, strictly, 0)
	y.AddReport(usage(0, 1, 5), 0, func(budget.KeyID) bool { return false })
	cold := usage(0, 1, 5)
	cold.Keys[0].Gen = budget.Gen{}
	y.AddReport(cold, 0, always)
	if len(y.keys) != 0 {
		t.Errorf("%d keys, want none", len(y.keys))
	}
}

func TestBusyPeriodIsWhatItSays(t *testing.T) {
	steps := []struct {
		tokens, from, now   float64
		since, total, above float64
	}{
		{100, 5, 6, 5, 100, 90},       // 100 in a second of 10
		{50, 2, 6, 2, 150, 110},       // began earlier: three more seconds of 10 are allowed
		{5, 0, 7, 2, 150, 100},        // not worth two more seconds; one passes
		{30, 6, 8, 2, 180, 120},       // inside
		{1, 39.9, 40, 39.9, 1, 0},     // the old period is over long ago
		{200, 39, 41, 39, 201, 181},   // and so on
		{300, 60, 60.5, 60, 300, 295}, // more telling by itself
	}
	var b busyPeriod
	for i, s := range steps {
		b.add(s.tokens, 10, second(s.from), second(s.now))
		if b.since != second(s.since) || !near(b.tokens, s.total) || !near(b.overRate, s.above) {
			t.Errorf("step %d: since %v, tokens %v, over %v; want %v, %v, %v", i, b.since, b.tokens, b.overRate, second(s.since), s.total, s.above)
		}
	}
}

// TestAuditKnowsHowRegionsSpaceTheirReports: a report that leaves a key out says that
// it was not used, unless it came too soon after the last one that told of it.
func TestAuditKnowsHowRegionsSpaceTheirReports(t *testing.T) {
	silent := func(session uint64) budget.Report { return budget.Report{Session: session} }
	y := New(0, strictly, 0)
	y.AddReport(silent(1), second(9.9), always)
	y.AddReport(usage(0, 1, 1), second(10), always)
	for _, s := range []float64{10.03, 10.06, 10.5, 11.2, 11.3, 11.4} {
		y.AddReport(silent(1), second(s), always)
	}
	key := budget.KeyID{Rule: 1}
	for at, read := range map[float64]float64{10.9: 9.9, 11.2: 11.2} {
		want := second(read).Add(-budget.ObservedWithin)
		copied, report := *y.keys[key], usage(0, 1, 2)
		copied.counters = slices.Clone(copied.counters)
		if spent := copied.readCounters(report, report.Keys[0], second(11.4), &regionClock{unreportedFrom: second(at), slack: reportSpacing}, second(11.5)); spent.from != want {
			t.Errorf("left out until %v: used since %v, want since %v", at, spent.from, want)
		}
	}
	if got := y.regions[0].unreportedFrom; got != second(11.3) {
		t.Errorf("what is not told was used since %v, want since the report before the last was read", got)
	}
	y.AddReport(silent(2), second(12), always) // a new session, in which nothing is known yet
	y.AddReport(silent(2), second(12.5), always)
	if got := y.regions[0].unreportedFrom; got != second(11.4) {
		t.Errorf("in the new session it was used since %v, want since the old one", got)
	}
}

// TestAuditKnowsARegionsPace: a region with many busy keys reports each of them less
// often, so that one it leaves out may well have been used.
func TestAuditKnowsARegionsPace(t *testing.T) {
	y := New(0, strictly, 0)
	silent := budget.Report{Session: 1, Pace: 5 * time.Second}
	y.AddReport(silent, second(1), always)
	for s := 2.; s < 30; s++ {
		y.AddReport(silent, second(s), always)
		switch region := y.regions[0]; {
		case region.unreportedFrom > 0 && s < 12:
			t.Fatalf("after %v s: unseen until %v; a key may be left out for two paces and a second", s, region.unreportedFrom)
		case s > 20 && (region.unreportedFrom != second(s-1) || region.slack != 11*time.Second):
			t.Fatalf("after %v s: unseen until %v, slack %v", s, region.unreportedFrom, region.slack)
		}
	}
}

// by is a report under another number of the rule, of a limit of so many tokens.
func by(number uint32, capacity int64, rep budget.Report) budget.Report {
	rep.Keys[0].Key.Rule, rep.Keys[0].Limit.Capacity = number, capacity*microToken
	return rep
}

// TestAuditCountsARuleOverItsNumbers: a client has one limit, whatever numbers its rule has in
// the versions that regions go by. So the watch would see a stage that gives it two.
func TestAuditCountsARuleOverItsNumbers(t *testing.T) {
	y := New(0, strictly, 0)
	y.staged, y.stagedNumbers = true, map[uint32]uint32{2: 1}
	y.AddReport(by(1, 100, usage(0, 1, 100)), second(0), always) // two regions by the version in force
	y.AddReport(by(2, 100, usage(1, 2, 100)), second(1), always) // one by the staged version
	y.AddReport(by(2, 100, usage(0, 1, 5)), second(1), always)   // one that learns of it, in one session
	if got := y.rules[1].excess.value(); !near(got, 205-100-10) {
		t.Errorf("excess %v, want 205 admitted in a second - 100 - 10", got)
	}
	if y.rules[2] != nil || len(y.keys) != 1 || len(y.breaches) != 1 || !near(y.breaches[0].ByRegion[0], 100) || !near(y.breaches[0].ByRegion[1], 100) {
		t.Errorf("%d keys, breaches %+v", len(y.keys), y.breaches)
	}
	y = y.Resume(0, strictly, second(2))
	y.staged, y.stagedNumbers = true, map[uint32]uint32{2: 1}
	y.AddReport(by(2, 100, usage(1, 2, 7)), second(3), always) // counts from 0 under another leader
	if got := y.rules[1].admitted[1]; !near(got, 107) {
		t.Errorf("%v admitted in region 1, want 100 and 7", got)
	}
}

// TestAuditOfTwoLimits: while a version is staged the larger limit counts, and reports of the two
// in turn do not begin the count again.
func TestAuditOfTwoLimits(t *testing.T) {
	y := New(0, strictly, 0)
	y.staged = true
	y.AddReport(by(1, 50, usage(1, 2, 0)), second(0), always)
	y.AddReport(by(1, 100, usage(0, 1, 0)), second(0), always) // the larger one is seen
	y.AddReport(by(1, 100, usage(0, 1, 90)), second(1), always)
	y.AddReport(by(1, 50, usage(1, 2, 30)), second(1), always)
	if got := y.rules[1].excess.value(); !near(got, 120-100-10) {
		t.Errorf("excess %v, want 120 admitted in a second - 100 - 10", got)
	}
	y.staged = false // it is promoted, or aborted: the limits that are reported count again
	y.promiseVersion++
	y.AddReport(by(1, 50, usage(1, 2, 30)), second(2), always)
	if got := y.keys[budget.KeyID{Rule: 1}].capacity; !near(got, 50) {
		t.Errorf("the capacity that counts is %v after the roll-out", got)
	}
}

// TestAuditOfAReplacedKind: a change of kind without a stage gives the rule a new number, and its
// clients full buckets. That is promised, and no breach.
func TestAuditOfAReplacedKind(t *testing.T) {
	y := New(0, strictly, 0)
	y.AddReport(by(1, 100, usage(0, 1, 100)), second(0), always)
	y.promiseVersion++ // number 1 went away, number 2 came
	hot := func(k budget.KeyID) bool { return k.Rule == 2 }
	y.AddReport(by(1, 100, usage(0, 1, 110)), second(1), hot) // a region that has not heard of it yet
	y.AddReport(by(2, 100, usage(0, 1, 100)), second(1), hot)
	if len(y.breaches) != 0 || y.rules[2].excess.value() != 0 {
		t.Errorf("%+v, excess %v", y.breaches, y.rules[2].excess.value())
	}
}

// beside is use of the key of usage beside the counters of a session, that began so long before the
// latest answer.
func beside(admitted int64, age time.Duration) []budget.Spent {
	k := usage(0, 1, 0).Keys[0]
	return []budget.Spent{{Key: k.Key, Limit: k.Limit, Admitted: admitted * microToken, Age: age}}
}

// TestAuditCountsWhatAReportTellsBesideItsCounters: what was admitted before the key was hot, or
// without a session, counts from its age before the answer that the region had before the report.
func TestAuditCountsWhatAReportTellsBesideItsCounters(t *testing.T) {
	tell := func(admitted int64, age time.Duration) *Audit {
		y := New(20_000, strictly, 0)
		y.AddReport(usage(1, 2, 0), second(9), always)
		for s := 7.; s < 10; s++ {
			y.AddReport(usage(0, 1, 0), second(s), always)
		}
		y.AddReport(usage(0, 1, 100), second(10), always)
		from := y.AddReport(usage(1, 2, 0), second(10), always)
		y.AddSpent(1, beside(admitted, age), from, second(10), always)
		return y
	}
	// The answer before came at 9 s, so what is 5 s old began at 9 - 5 x 1.02 = 3.9 s.
	y := tell(80, 5*time.Second)
	if len(y.breaches) != 1 || y.breaches[0].From != second(3.9) || !near(y.breaches[0].Admitted, 180) || !near(y.breaches[0].Allowed, 100+6.1*10.2) {
		t.Errorf("%+v; 180 in 6.1 s are more than 100 + 62.22", y.breaches)
	}
	if got := y.rules[1].admitted; got[0] != 100 || got[1] != 0 {
		t.Errorf("admitted %v; what may be old is no present use", got)
	}
	if y := tell(80, 9*time.Second); len(y.breaches) != 0 {
		t.Errorf("%+v; 180 in 10.18 s are within 100 + 103", y.breaches)
	}
	y = tell(0, 0)
	y.AddReport(by(1, 200, usage(0, 1, 100)), second(11), always) // the limit changes
	y.AddSpent(1, beside(500, 2*time.Second), second(11), second(11), always)
	if len(y.breaches) != 0 {
		t.Errorf("%+v; it was spent before the limit changed", y.breaches)
	}
}

// TestAuditCountsADaemonBesideTheSession: what a second daemon of a region admits counts with what
// the first one reports, from the answer to its Hello before on.
func TestAuditCountsADaemonBesideTheSession(t *testing.T) {
	y := New(0, strictly, 0)
	second1, spent := Daemon{Region: 0, Incarnation: 2}, beside(80, 0)
	y.AddReport(usage(0, 1, 100), second(0), always)
	y.AddSessionless(second1, 1, 0, nil, second(1), always)
	y.AddSessionless(second1, 2, 1, spent, second(2), always)
	if len(y.breaches) != 1 || !near(y.breaches[0].Admitted, 180) || !near(y.breaches[0].Allowed, 120) || !near(y.breaches[0].ByRegion[0], 180) {
		t.Fatalf("%+v; 180 in two seconds are more than 100 + 20", y.breaches)
	}
	if got := y.rules[1].admitted[0]; !near(got, 180) {
		t.Errorf("%v admitted in the region, want 180", got)
	}
	refunded := beside(0, 0)
	refunded[0].Refunded = 180 * microToken
	y.AddSessionless(second1, 3, 2, refunded, second(2), always)
	if got := y.keys[refunded[0].Key].excess(); got > 0 {
		t.Errorf("%v above the limit after all was given back", got)
	}
}

// TestAuditBesideIsCertain: nothing counts whose beginning this node does not know.
func TestAuditBesideIsCertain(t *testing.T) {
	of, spent := Daemon{Region: 0, Incarnation: 2}, beside(500, 0)
	for name, fold := range map[string]func(*Audit){
		"before the first answer": func(y *Audit) { y.AddSessionless(of, 1, 0, spent, second(1), always) },
		"since an answer of another leader": func(y *Audit) {
			y.AddSessionless(of, 8, 7, spent, second(1), always)
		},
		"told before, and the answer was lost": func(y *Audit) {
			y.AddSessionless(of, 1, 0, nil, second(1), always)
			y.AddSessionless(of, 2, 1, nil, second(2), always)
			y.AddSessionless(of, 3, 1, spent, second(3), always)
		},
		"a cold key": func(y *Audit) {
			y.AddSessionless(of, 1, 0, nil, second(1), always)
			y.AddSessionless(of, 2, 1, spent, second(2), func(budget.KeyID) bool { return false })
		},
	} {
		y := New(0, strictly, 0)
		if fold(y); len(y.breaches) != 0 || len(y.keys) != 0 {
			t.Errorf("%s: %+v", name, y.breaches)
		}
	}
	y := New(0, strictly, 0)
	for i := range uint64(2 * maxSessionless) {
		y.AddSessionless(Daemon{Incarnation: i}, 1, 0, nil, 0, always)
	}
	if len(y.sessionless) > maxSessionless {
		t.Errorf("it remembers %d daemons", len(y.sessionless))
	}
}
