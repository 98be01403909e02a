package sim

import (
	"slices"
	"testing"
	"time"

	"aliquot/limit"
)

// small are limits that are too small to be split over three regions.
func small() []limit.Limit { return []limit.Limit{of(3, 1), of(10, 5), of(20, 2)} }

// rateOver is how much of its rate a client got over a time, and the tokens of that.
func (w *world) rateOver(t *testing.T, d time.Duration) float64 {
	t.Helper()
	before := w.Rules[0].Ideal.Spent()
	w.pass(t, d)
	got := float64(w.Rules[0].Ideal.Spent() - before)
	return got / (float64(w.Rules[0].Latest().Rate.Micro) * d.Seconds())
}

// A client that moves to another region finds its limit there.
func TestCalmHomeFollowsTheClient(t *testing.T) {
	for _, l := range small() {
		w := calm(t, l, Behaviour{mode: single})
		w.pass(t, 20*time.Second)
		for _, region := range []int{1, 2, 0} {
			w.opts.Mode.home = region
			soon := w.rateOver(t, 5*time.Second)
			request := float64(million) / float64(5*l.Rate.Micro)
			if soon < 0.9-request { // one may have come a moment too late
				t.Errorf("C %d r %d: %.4f of the rate in the first five seconds in region %d", l.Capacity/limit.Token, l.Rate.Micro/million, soon, region)
			}
			got := w.rateOver(t, 60*time.Second)
			t.Logf("C %d r %d in region %d: %.4f of the rate", l.Capacity/limit.Token, l.Rate.Micro/million, region, got)
			if got < 0.98 {
				t.Errorf("C %d r %d: %.4f of the rate in region %d", l.Capacity/limit.Token, l.Rate.Micro/million, got, region)
			}
		}
	}
}

// Busy regions share a small limit in turns, and little of its rate is lost on the
// way between them; each has its part.
func TestCalmHomeInTurns(t *testing.T) {
	for _, regions := range []int{2, 3} {
		for _, l := range small() {
			opts := calmly(l, Behaviour{mode: greedy})
			opts.Regions = regions
			w := newWorld(1, opts, time.Hour)
			w.pass(t, 10*time.Second)
			before := slices.Clone(w.Rules[0].Got)
			got := w.rateOver(t, 120*time.Second)
			t.Logf("%d regions, C %d r %d: %.4f of the rate", regions, l.Capacity/limit.Token, l.Rate.Micro/million, got)
			if got < 0.9 {
				t.Errorf("%d regions, C %d r %d: %.4f of the rate", regions, l.Capacity/limit.Token, l.Rate.Micro/million, got)
			}
			for i, n := range w.Rules[0].Got {
				part := float64(n-before[i]) / float64(l.Rate.Micro) / 120
				if part < 0.7/float64(regions) {
					t.Errorf("%d regions, C %d r %d: region %d had %.3f of the rate", regions, l.Capacity/limit.Token, l.Rate.Micro/million, i, part)
				}
			}
		}
	}
}

// A small limit of a region that is cut off is not held up by it, once it counts as
// silent: the others share the rest, and it takes its floor back.
func TestCalmHomeCutOff(t *testing.T) {
	w := calm(t, of(20, 5), Behaviour{mode: greedy})
	w.pass(t, 20*time.Second)
	w.cutUp[0], w.cutDown[0] = true, true
	w.pass(t, 45*time.Second)
	if got := w.rateOver(t, 60*time.Second); got < 0.9 {
		t.Errorf("%.4f of the rate while one region is cut off", got)
	}
	w.cutUp[0], w.cutDown[0] = false, false
	w.pass(t, 20*time.Second)
	if got := w.rateOver(t, 60*time.Second); got < 0.9 {
		t.Errorf("%.4f of the rate after the cut", got)
	}
}
