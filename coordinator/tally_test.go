package coordinator

import (
	"slices"
	"testing"
	"time"

	"aliquot/budget"
)

func always(budget.KeyID) bool { return true }
func kept(uint32) bool         { return true }

// strictly promises that nothing is admitted beyond the limit, and that shares move in a
// second.
func strictly(uint32, budget.KeyLimit) budget.Promise {
	return budget.Promise{Measured: true, ToHot: time.Second, ToFollow: time.Second}
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

func TestTallyCountsDifferencesWithinASession(t *testing.T) {
	y := newAuditor(0, strictly, 0)
	for _, rep := range []budget.Report{usage(0, 7, 5), usage(0, 7, 8), usage(2, 9, 4), usage(0, 8, 2)} {
		y.addReport(rep, 0, always)
	}
	got := y.rules[1]
	if got.admitted[0] != 10 || got.admitted[2] != 4 || got.offered[0] != 10 {
		t.Errorf("admitted %v, offered %v, want 10 and 4: 5 and 3 of session 7, 2 of session 8", got.admitted, got.offered)
	}
	if sums := y.totals()[1]; sums.refillRate != 10 || sums.admitted[0] != 10 {
		t.Errorf("sums %+v", sums)
	}
}

func TestTallySeesAnExcess(t *testing.T) {
	y := newAuditor(0, strictly, 0)
	y.addReport(usage(0, 1, 100), second(0), always)
	y.addReport(usage(1, 2, 20), second(1), always)
	if got := y.rules[1].excess.value(); !near(got, 10) {
		t.Errorf("excess %v, want 120 admitted in the first second - 100 - 10", got)
	}
	// Spent after the answer at second 1, for all that is known in the second after.
	y.addReport(usage(1, 2, 50), second(2), always)
	if got := y.rules[1].excess.value(); !near(got, 30) {
		t.Errorf("excess %v, want 150 admitted in two seconds - 100 - 20", got)
	}
	if got := y.rules[1].gain; !near(got, 150./120) {
		t.Errorf("gain %v, want 150 of 120", got)
	}
	y.addReport(usage(1, 2, 51), second(60), always)
	if got := y.rules[1].excess.value(); !near(got, 30) {
		t.Errorf("excess %v; the most that was seen should stay for a while", got)
	}
}

func TestTallyLetsAnExcessGoInTime(t *testing.T) {
	y := newAuditor(0, strictly, 0)
	y.addReport(usage(0, 1, 150), 0, always)
	for s := 10.; s < 600; s += 10 {
		y.tick(second(s), always, kept)
		got := y.rules[1].excess.value()
		if s < maxKept.Seconds() && !near(got, 50) {
			t.Fatalf("after %v s the excess is %v already", s, got)
		}
	}
	y.tick(second(600), always, kept)
	if got := y.rules[1].excess.value(); got != 0 {
		t.Errorf("after twice the time it is kept at least, the excess is still %v", got)
	}
}

// TestTallyDoubtsLateReports: what a region that was cut off tells of a minute at
// once was spent in that minute, in which the limit refilled.
func TestTallyDoubtsLateReports(t *testing.T) {
	y := newAuditor(0, strictly, 0)
	y.addReport(usage(1, 2, 0), second(1), always)
	y.addReport(usage(0, 1, 100), second(1), always) // all of the burst
	for s := 2.; s <= 60; s++ {
		y.addReport(usage(0, 1, 100+int64(6*(s-1))), second(s), always) // 6 a second
	}
	y.addReport(usage(1, 2, 3*60), second(61), always) // 3 a second, told late
	if got := y.rules[1].excess.value(); got != 0 {
		t.Errorf("excess %v, want 0: 9 a second of 10 were spent", got)
	}
	// It does know what is spent too much once reports come in time again.
	y.addReport(usage(1, 2, 3*60), second(61.1), always)
	y.addReport(usage(1, 2, 3*60+150), second(62), always)
	y.addReport(usage(0, 1, 100+6*60), second(62), always)
	if got := y.rules[1].excess.value(); got < 30 {
		t.Errorf("excess %v, want what 150 at once are above the burst at least", got)
	}
}

func TestTallyBeginsAgainWhenALimitChanges(t *testing.T) {
	small := usage(0, 1, 310)
	small.Keys[0].Limit = budget.KeyLimit{Capacity: 10 * microToken, Rate: microToken}
	large := usage(0, 1, 100)
	large.Keys[0].Limit = budget.KeyLimit{Capacity: 300 * microToken, Rate: microToken}
	y := newAuditor(0, strictly, 0)
	y.addReport(large, second(1), always)
	y.addReport(small, second(2), always) // 210 more, under whichever limit
	if got := y.rules[1].excess.value(); got != 0 {
		t.Errorf("excess %v; what was spent under the larger limit says nothing of the smaller", got)
	}
	for s := range 3 {
		small.Keys[0].Admitted += 20 * microToken
		y.addReport(small, second(3+float64(s)/10), always)
	}
	if got := y.rules[1].excess.value(); got < 20 {
		t.Errorf("excess %v, want 40 in a second of a burst of 10 to be noticed", got)
	}
}

func TestTallyUtilisationAndForgetting(t *testing.T) {
	y := newAuditor(20_000, strictly, 0)
	y.addReport(usage(0, 1, 50), 0, always)
	y.tick(second(9), always, kept)
	if y.rules[1].utilisation != 0 {
		t.Error("the window is not over")
	}
	y.tick(second(10), always, kept)
	if got := y.rules[1]; !near(got.utilisation, 0.5) || !near(got.lastGain, 0.5) {
		t.Errorf("utilisation %v, want 50 of 10/s x 10 s; gain %v, want 50 of 100", got.utilisation, got.lastGain)
	}
	none := func(budget.KeyID) bool { return false }
	y.tick(second(20), none, kept)
	if len(y.keys) != 0 || y.rules[1].utilisation != 0 || y.rules[1].lastGain != 0 {
		t.Errorf("%d keys left, utilisation %v, gain %v", len(y.keys), y.rules[1].utilisation, y.rules[1].lastGain)
	}
	y.tick(second(30), none, func(uint32) bool { return false })
	if len(y.rules) != 0 {
		t.Error("a rule that is gone should be forgotten")
	}
}

func TestTallyIgnoresWhatTheLedgerDoesNotHave(t *testing.T) {
	y := newAuditor(0, strictly, 0)
	y.addReport(usage(0, 1, 5), 0, func(budget.KeyID) bool { return false })
	cold := usage(0, 1, 5)
	cold.Keys[0].Gen = budget.Gen{}
	y.addReport(cold, 0, always)
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

// TestTallyKnowsHowRegionsSpaceTheirReports: a report that leaves a key out says that
// it was not used, unless it came too soon after the last one that told of it.
func TestTallyKnowsHowRegionsSpaceTheirReports(t *testing.T) {
	silent := func(session uint64) budget.Report { return budget.Report{Session: session} }
	y := newAuditor(0, strictly, 0)
	y.addReport(silent(1), second(9.9), always)
	y.addReport(usage(0, 1, 1), second(10), always)
	for _, s := range []float64{10.03, 10.06, 10.5, 11.2, 11.3, 11.4} {
		y.addReport(silent(1), second(s), always)
	}
	key := budget.KeyID{Rule: 1}
	for at, want := range map[float64]float64{10.9: 9.9, 11.2: 11.2} {
		copied, report := *y.keys[key], usage(0, 1, 2)
		copied.counters = slices.Clone(copied.counters)
		if spent := copied.readCounters(report, report.Keys[0], second(11.4), &regionClock{unreportedFrom: second(at), slack: reportSpacing}, second(11.5)); spent.from != second(want) {
			t.Errorf("left out until %v: used since %v, want since %v", at, spent.from, second(want))
		}
	}
	if got := y.regions[0].unreportedFrom; got != second(11.3) {
		t.Errorf("what is not told was used since %v, want since the report before the last was read", got)
	}
	y.addReport(silent(2), second(12), always) // a new session, in which nothing is known yet
	y.addReport(silent(2), second(12.5), always)
	if got := y.regions[0].unreportedFrom; got != second(11.4) {
		t.Errorf("in the new session it was used since %v, want since the old one", got)
	}
}

// TestTallyKnowsARegionsPace: a region with many busy keys reports each of them less
// often, so that one it leaves out may well have been used.
func TestTallyKnowsARegionsPace(t *testing.T) {
	y := newAuditor(0, strictly, 0)
	silent := budget.Report{Session: 1, Pace: 5 * time.Second}
	y.addReport(silent, second(1), always)
	for s := 2.; s < 30; s++ {
		y.addReport(silent, second(s), always)
		switch region := y.regions[0]; {
		case region.unreportedFrom > 0 && s < 12:
			t.Fatalf("after %v s: unseen until %v; a key may be left out for two paces and a second", s, region.unreportedFrom)
		case s > 20 && (region.unreportedFrom != second(s-1) || region.slack != 11*time.Second):
			t.Fatalf("after %v s: unseen until %v, slack %v", s, region.unreportedFrom, region.slack)
		}
	}
}
