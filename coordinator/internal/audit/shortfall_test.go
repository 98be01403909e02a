package audit

import (
	"testing"

	"aliquot/budget"
	"aliquot/budget/promise"
)

// refusing lets region 0 ask for 20 a second of a limit of 10 and get so many, for a
// time, and returns the shortfall seen. meanwhile is called each second.
func refusing(admittedPerSecond float64, seconds int, meanwhile func(*Audit, int)) float64 {
	y := New(0, strictly, 0)
	y.lastUnheard = -1
	for s := range seconds {
		for tenth := range 10 {
			now := float64(s) + float64(tenth)/10
			report := usage(0, 1, 0)
			report.Keys[0].Admitted = int64(admittedPerSecond * now * microToken)
			report.Keys[0].Offered = int64(20 * now * microToken)
			y.AddReport(report, second(1+now), always)
		}
		meanwhile(y, s)
	}
	return y.rules[1].shortfall.value()
}

func nothing(*Audit, int) {}

func TestShortfallIsWhatWasLeftAndRefused(t *testing.T) {
	for _, c := range []struct {
		name       string
		admitted   float64
		seconds    int
		meanwhile  func(*Audit, int)
		from, upTo float64
	}{
		{"all of the limit is used", 10, 200, nothing, 0, 0},
		{"96 % of it: less than a second's refill is uncertain", 9.7, 200, nothing, 0, 0},
		{"half of it: 150 of 300 in 30 s, less 10", 5, 200, nothing, 138, 142},
		{"the first window begins before the share should have moved", 5, 60, nothing, 0, 0},
		{"the second does not", 5, 70, nothing, 138, 142},
		{"what another region admits is not left", 5, 200, func(y *Audit, s int) {
			y.AddReport(usage(1, 2, int64(4*(s+1))), second(float64(s)+2), always)
		}, 10, 30},
		{"a region was not heard", 5, 200, func(y *Audit, s int) {
			if s%20 == 0 {
				y.lastUnheard = second(float64(s) + 1)
			}
		}, 0, 0},
		{"the limit changed", 5, 200, func(y *Audit, s int) {
			if s%20 == 0 {
				report := usage(1, 2, 0)
				report.Keys[0].Limit.Capacity += int64(s) * microToken
				y.AddReport(report, second(float64(s)+2), always)
			}
		}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := refusing(c.admitted, c.seconds, c.meanwhile); got < c.from || got > c.upTo {
				t.Errorf("shortfall %v, want %v to %v", got, c.from, c.upTo)
			}
		})
	}
}

// TestShortfallIsAtMostWhatWasRefused: one request a second that is refused, while
// nothing else is asked for, is a shortfall of one a second.
func TestShortfallIsAtMostWhatWasRefused(t *testing.T) {
	y := New(0, strictly, 0)
	y.lastUnheard = -1
	for s := range 100 {
		report := usage(0, 1, 0)
		report.Keys[0].Offered = int64(s) * microToken
		y.AddReport(report, second(float64(1+s)), always)
	}
	if got := y.rules[1].shortfall.value(); got < 29 || got > 31 {
		t.Errorf("shortfall %v, want the 30 that were refused in 30 s", got)
	}
}

// TestShortfallNeedsRefusalsAllTheTime: a pause of some seconds begins a new spell, and
// nothing is said while the times are not measured.
func TestShortfallNeedsRefusalsAllTheTime(t *testing.T) {
	for name, promise := range map[string]PromiseFunc{
		"with pauses":  strictly,
		"not measured": func(uint32, budget.KeyLimit) promise.Promise { return promise.Promise{} },
	} {
		y := New(0, promise, 0)
		y.lastUnheard = -1
		for s := range 300 {
			if name == "with pauses" && s%20 < 4 {
				continue
			}
			report := usage(0, 1, 0)
			report.Keys[0].Offered = int64(s) * microToken
			y.AddReport(report, second(float64(1+s)), always)
		}
		if got := y.rules[1].shortfall.value(); got != 0 {
			t.Errorf("%s: shortfall %v", name, got)
		}
	}
}
