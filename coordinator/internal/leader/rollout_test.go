package leader

import (
	"strings"
	"testing"

	"aliquot/budget"
	clusterstate "aliquot/cluster/state"
)

// under is a report's counts.
func under(version, allowed, denied uint64) DecisionCounts {
	return DecisionCounts{version, allowed, denied}
}

func TestDenialsCountWhatSettled(t *testing.T) {
	var d decisionRates
	d.add(under(1, 500, 500), second(1), true) // of a daemon that has run for long
	if d.settled(second(5)) || d.recent().total() != 0 || d.baseline() != under(1, 500, 500) {
		t.Errorf("at first: %+v", d)
	}
	d.add(under(1, 600, 500), second(3), true) // not settled yet
	d.add(under(1, 700, 510), second(6.5), true)
	if got := d.recent(); got != under(1, 100, 10) {
		t.Errorf("lately %+v, want what came after %s", got, rolloutSettleTime)
	}
	if got := d.baseline(); got != under(1, 700, 510) {
		t.Errorf("known %+v, want all that the daemon has counted, for lately is too little", got)
	}
	d.add(under(1, 1700, 510), second(8), true)
	if got := d.baseline(); got != under(1, 1100, 10) {
		t.Errorf("known %+v, want lately", got)
	}
	d.add(under(1, 90, 10), second(9), true) // the daemon was restarted
	if got := d.recent(); got != under(1, 1190, 20) {
		t.Errorf("after a restart: %+v", got)
	}
	d.add(under(2, 1, 1), second(10), false) // new rules
	if d.recent().total() != 0 || d.settled(second(14)) || !d.settled(second(15)) {
		t.Errorf("under new rules: %+v", d)
	}
}

// Windows move on: what was denied long ago does not water down, or blame, what is
// decided now. One that is not full waits.
func TestDenialsForget(t *testing.T) {
	var d decisionRates
	d.add(under(1, 0, 0), second(0.001), true)
	allowed, denied := uint64(0), uint64(0)
	for s := 10.; s <= 600; s++ {
		if s < 300 {
			denied += 20
		} else {
			allowed += 20
		}
		d.add(under(1, allowed, denied), second(s), true)
		if n := d.recent().total(); s > 100 && (n < minRolloutRequests || n > 20*2*61) {
			t.Fatalf("after %v s lately is %d requests", s, n)
		}
	}
	if got := d.recent(); got.Denied != 0 {
		t.Errorf("lately %+v; none was denied in the last minutes", got)
	}
	var slow decisionRates // a request a second
	slow.add(under(1, 0, 0), second(0.001), true)
	for s := 10.; s < 10+1.5*minRolloutRequests; s++ {
		slow.add(under(1, uint64(s), 0), second(s), true)
	}
	if n := slow.recent().total(); n < minRolloutRequests {
		t.Errorf("lately is %d requests of %d", n, 3*minRolloutRequests/2)
	}
}

func TestJump(t *testing.T) {
	for name, c := range map[string]struct {
		now, before DecisionCounts
		is          bool
		says        string
	}{
		"too few":             {under(2, 0, 999), under(1, 1000, 0), false, ""},
		"as before":           {under(2, 900, 100), under(1, 900, 100), false, ""},
		"as much as it may":   {under(2, 850, 150), under(1, 900, 100), false, ""},
		"more":                {under(2, 849, 151), under(1, 900, 100), true, "us denies 15.1 % of 1000 requests (before: 10.0 % of 1000 requests); it may rise by 5 hundredths"},
		"fewer denials":       {under(2, 1000, 0), under(1, 0, 1000), false, ""},
		"nothing known, few":  {under(2, 960, 40), under(1, 0, 0), false, ""},
		"nothing known, many": {under(2, 900, 100), under(1, 0, 999), true, "too few requests to compare, 999; counted as none denied"},
	} {
		why, is := denialJump("us", c.now, c.before, 50_000)
		if is != c.is || !strings.Contains(why, c.says) {
			t.Errorf("%s: %v, %q", name, is, why)
		}
	}
}

func TestJudge(t *testing.T) {
	staged := &clusterstate.Rollout{
		Version: 2, First: 2, Base: 1, Regions: []string{"us", "eu"}, State: clusterstate.RolloutStaged, PromoteAtUnixMS: 1000, HaltAbovePPM: 50_000,
		Before: []clusterstate.Decisions{{Region: "us", Allowed: 2000}, {Region: "eu", Allowed: 1000, Denied: 1000}},
	}
	all := func(int) bool { return true }
	for name, c := range map[string]struct {
		do     func(w *rolloutWatch) func(int) bool
		unixMS int64
		want   string
	}{
		"due":         {func(*rolloutWatch) func(int) bool { return all }, 1000, clusterstate.RolloutPromoted},
		"not yet":     {func(*rolloutWatch) func(int) bool { return all }, 999, ""},
		"no roll-out": {func(w *rolloutWatch) func(int) bool { w.follow(&clusterstate.RuleBook{}); return all }, 1000, ""},
		"ended": {func(w *rolloutWatch) func(int) bool {
			w.follow(&clusterstate.RuleBook{Rollout: &clusterstate.Rollout{State: clusterstate.RolloutHalted}})
			return all
		}, 1000, ""},
		"ending":           {func(w *rolloutWatch) func(int) bool { w.ending = true; return all }, 1000, ""},
		"new leader":       {func(w *rolloutWatch) func(int) bool { w.startedAt = second(15); return all }, 1000, ""},
		"nobody is heard":  {func(*rolloutWatch) func(int) bool { return func(int) bool { return false } }, 1000, clusterstate.RolloutStaged},
		"one is not heard": {func(*rolloutWatch) func(int) bool { return func(i int) bool { return i == 0 } }, 1000, clusterstate.RolloutPromoted},
		"one has not got it": {func(w *rolloutWatch) func(int) bool {
			w.add(threeRegions(), 1, under(1, 0, 0), second(2))
			return all
		}, 1000, clusterstate.RolloutStaged},
		"one has just got it": {func(w *rolloutWatch) func(int) bool {
			w.regions[1] = decisionRates{}
			w.add(threeRegions(), 1, under(2, 0, 0), second(19))
			return all
		}, 1000, clusterstate.RolloutStaged},
		"a jump": {func(w *rolloutWatch) func(int) bool {
			w.add(threeRegions(), 1, under(2, 0, 1000), second(18))
			return all
		}, 0, clusterstate.RolloutHalted},
		"as many denials as the region had before": {func(w *rolloutWatch) func(int) bool {
			w.add(threeRegions(), 1, under(2, 500, 500), second(18))
			return all
		}, 0, ""},
		"as many denials as another region had before": {func(w *rolloutWatch) func(int) bool {
			w.add(threeRegions(), 0, under(2, 500, 500), second(18))
			return all
		}, 0, clusterstate.RolloutHalted},
		"a jump elsewhere": {func(w *rolloutWatch) func(int) bool {
			w.add(threeRegions(), 2, under(1, 0, 0), second(2))
			w.add(threeRegions(), 2, under(1, 0, 5000), second(18))
			return all
		}, 0, ""},
		"a jump before it": {func(w *rolloutWatch) func(int) bool {
			w.add(threeRegions(), 1, under(1, 0, 0), second(10))
			w.add(threeRegions(), 1, under(1, 0, 5000), second(18))
			return all
		}, 0, ""},
	} {
		w := newRolloutWatch(3, second(1))
		w.follow(&clusterstate.RuleBook{Applied: 1, Version: 1, Rollout: staged})
		for i := range 2 {
			w.add(threeRegions(), i, under(2, 0, 0), second(2))
		}
		live := c.do(&w)
		if state, why := w.verdict(threeRegions(), live, second(20), c.unixMS); state != c.want || (state != "") != (why != "") {
			t.Errorf("%s: %q (%s), want %q", name, state, why, c.want)
		}
	}
	w := newRolloutWatch(3, 1)
	w.add(threeRegions(), 1, under(1, 30, 3), second(2))
	got := w.decisionsBefore(threeRegions(), []string{"eu", "ap"})
	if len(got) != 2 || got[0] != (clusterstate.Decisions{Region: "eu", Allowed: 30, Denied: 3}) || got[1] != (clusterstate.Decisions{Region: "ap"}) {
		t.Errorf("before: %+v", got)
	}
}

// blockEvery returns after how many seconds a stage ends, and how: us has 200 requests a second and denies
// this part of them. An entry changes every few seconds and makes a version of each text, under which the
// daemon counts from zero.
func blockEvery(seconds int, deniedPart float64, promoteAtMS int64) (state string, after int) {
	w := newRolloutWatch(3, second(1))
	version := uint64(2)
	staged := func() *clusterstate.RuleBook {
		return &clusterstate.RuleBook{Applied: 1, Version: version - 1, Rollout: &clusterstate.Rollout{
			Version: version, First: 2, Regions: []string{"us"}, State: clusterstate.RolloutStaged, HaltAbovePPM: 50_000, PromoteAtUnixMS: promoteAtMS,
			Before: []clusterstate.Decisions{{Region: "us", Allowed: 10_000}},
		}}
	}
	w.follow(staged())
	counted := 0.
	for s := 1; s <= 600; s++ {
		if s%seconds == 0 {
			version, counted = version+2, 0
			w.follow(staged())
		}
		counted += 200
		w.add(threeRegions(), 0, under(version, uint64(counted*(1-deniedPart)), uint64(counted*deniedPart)), second(float64(s)))
		if state, _ := w.verdict(threeRegions(), func(i int) bool { return i == 0 }, second(float64(s)), int64(s)*1000); state == clusterstate.RolloutHalted || state == clusterstate.RolloutPromoted {
			return state, s
		}
	}
	return "", 600
}

// Entries that change while a version is staged keep it neither from being halted nor from being promoted.
func TestEntriesDoNotHideADenialJump(t *testing.T) {
	for _, every := range []int{1000, 10, 5, 1} {
		if state, after := blockEvery(every, 1, 0); state != clusterstate.RolloutHalted || after > 11 {
			t.Errorf("an entry every %d s: %q after %d s, want a halt within 11 s", every, state, after)
		}
		if state, after := blockEvery(every, 0, 60_000); state != clusterstate.RolloutPromoted || after != 60 {
			t.Errorf("an entry every %d s: %q after %d s, want a promotion after 60 s", every, state, after)
		}
	}
}

// An entry that changes right before a stage leaves what was decided before it as the baseline: in the
// last windows, or else under all versions of the text that the daemon has counted.
func TestEntriesKeepTheBaseline(t *testing.T) {
	w := newRolloutWatch(3, second(1))
	follow := func(version uint64) { w.follow(&clusterstate.RuleBook{Applied: 1, Version: version}) }
	follow(1)
	w.add(threeRegions(), 0, under(1, 900, 100), second(1))
	follow(2)
	w.add(threeRegions(), 0, under(2, 9, 1), second(2))
	if got := w.regions[0].baseline(); got != under(2, 909, 101) {
		t.Errorf("%+v, want all under both versions of the text", got)
	}
	w.add(threeRegions(), 0, under(2, 909, 101), second(8))
	follow(3)
	w.add(threeRegions(), 0, under(3, 90, 10), second(9))
	if got := w.regions[0].baseline(); got != under(3, 990, 110) {
		t.Errorf("%+v, want the last windows under both versions", got)
	}
}

// The numbers of both texts interleave: version 3 is the text in force, in a region that is not staged.
func TestTheTextOfAVersion(t *testing.T) {
	w := newRolloutWatch(3, 1)
	w.follow(&clusterstate.RuleBook{Applied: 1, Version: 5, Rollout: &clusterstate.Rollout{Version: 6, First: 2, Regions: []string{"us"}, State: clusterstate.RolloutStaged}})
	for version, want := range map[uint64][2]uint64{0: {0, 0}, 1: {1, 1}, 2: {2, 1}, 3: {2, 1}, 5: {2, 1}, 6: {2, 6}, 7: {7, 7}} {
		if got := [2]uint64{w.textOf("us", version), w.textOf("eu", version)}; got != want {
			t.Errorf("version %d: %v, want %v", version, got, want)
		}
	}
}

func threeRegions() *budget.Config {
	return &budget.Config{Regions: []budget.RegionConfig{{Name: "us"}, {Name: "eu"}, {Name: "ap"}}}
}
