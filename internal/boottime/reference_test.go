package boottime

import (
	"testing"
	"time"

	"aliquot/budget"
)

const rho = 20_000

// TestReferenceSeesAClockThatStoodStill, by what the way and drift do not explain, whatever
// happened on the way.
func TestReferenceSeesAClockThatStoodStill(t *testing.T) {
	const ms = int64(1000)
	at := func(ms int64) budget.Instant { return budget.Instant(ms * 1_000_000) }
	type reading struct {
		other, sent, received int64 // ms
		stopped               time.Duration
	}
	for name, readings := range map[string][]reading{
		"steady":             {{500_000, 0, 80, 0}, {501_000, 1000, 1080, 0}, {502_000, 2000, 2080, 0}},
		"fast by rho":        {{500_000, 0, 0, 0}, {510_200, 10_000, 10_000, 0}},
		"slow":               {{500_000, 0, 0, 0}, {509_000, 10_000, 10_000, 0}},
		"paused once":        {{500_040, 0, 80, 0}, {503_540, 1500, 1580, 1888_400 * time.Microsecond}, {504_540, 2500, 2580, 0}},
		"paused on the way":  {{500_040, 0, 80, 0}, {501_040, 1000, 1080, 0}, {504_040, 2000, 2080, 1898_400 * time.Microsecond}},
		"late answer":        {{500_040, 0, 80, 0}, {501_040, 1000, 3080, 0}, {504_100, 4000, 4080, 0}},
		"late before, held":  {{500_900, 0, 980, 0}, {501_040, 1000, 1080, 0}, {503_040, 2000, 2080, 898_400 * time.Microsecond}},
		"late, not held":     {{500_000, 0, 80, 0}, {502_500, 1000, 2580, 0}, {504_080, 2600, 2680, 1346_400 * time.Microsecond}},
		"the other one slow": {{500_000, 0, 80, 0}, {500_001, 60_000, 60_080, 0}, {502_001, 61_000, 61_080, 898_400 * time.Microsecond}},
	} {
		var r Reference
		for i, x := range readings {
			got := r.Read(1, x.other*ms, at(x.sent), at(x.received), rho)
			if (got - x.stopped).Abs() > 2*time.Millisecond {
				t.Errorf("%s: reading %d says that it was stopped for %v, want %v", name, i, got, x.stopped)
			}
		}
	}
	var r Reference
	r.Read(1, 0, 0, 0, rho)
	if got := r.Read(2, 1_000_000_000, 0, 0, rho); got != 0 {
		t.Errorf("another leader's clock says %v", got)
	}
}

// TestWallSeesAStepForward, and neither one back nor what a clock that is slewed does.
func TestWallSeesAStepForward(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	for _, x := range []struct{ boot, wall, want time.Duration }{
		{time.Second, time.Second, 0}, {time.Second, time.Second + wallStep - 1, 0}, {time.Second, time.Second + wallStep, wallStep},
		{20 * time.Millisecond, 3 * time.Second, 2980 * time.Millisecond}, {time.Second, -time.Hour, 0}, {time.Hour, time.Hour, 0},
	} {
		var w Wall
		if got := w.Read(0, start); got != 0 {
			t.Errorf("the first reading says %v", got)
		}
		if got := w.Read(budget.Instant(x.boot), start.Add(x.wall)); got != x.want {
			t.Errorf("%v later, %v by the wall clock: %v, want %v", x.boot, x.wall, got, x.want)
		}
	}
}
