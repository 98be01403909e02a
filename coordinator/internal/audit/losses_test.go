package audit

import (
	"testing"

	"aliquot/budget"
	"aliquot/budget/promise"
)

// forgiving promises that nothing is admitted beyond the limit, except one limit for each loss.
func forgiving(_ uint32, l budget.KeyLimit) promise.Promise {
	return promise.Promise{Measured: true, Forgiven: l.Capacity}
}

// holding is a report of a region whose store has these contents.
func holding(contents uint32, rep budget.Report) budget.Report {
	rep.Contents = contents
	return rep
}

// TestAuditAllowsWhatALossForgives: a limit of 100 is used up twice at once. It is a breach unless the
// rule forgives and the store has lost its contents in between, and each loss allows one limit more.
func TestAuditAllowsWhatALossForgives(t *testing.T) {
	for _, is := range []struct {
		name     string
		promise  PromiseFunc
		contents [3]uint32
		breaches int
	}{
		{"nothing lost", forgiving, [3]uint32{7, 7, 7}, 2},
		{"a rule that denies", strictly, [3]uint32{7, 8, 8}, 2},
		{"one loss", forgiving, [3]uint32{7, 8, 8}, 1},
		{"two losses", forgiving, [3]uint32{7, 8, 9}, 0},
		{"the contents were not known", forgiving, [3]uint32{0, 8, 8}, 2},
	} {
		y := New(0, is.promise, 0)
		for i, contents := range is.contents {
			y.AddReport(holding(contents, usage(0, 1, 100*int64(i+1))), second(float64(i)/10), always)
		}
		if got := len(y.TakeBreaches()); got != is.breaches {
			t.Errorf("%s: %d breaches, want %d", is.name, got, is.breaches)
		}
	}
}

// TestAuditForgivesNothingLater: a loss of long ago says nothing of what is used now, and another
// leader's audit of the same node remembers what it has seen.
func TestAuditForgivesNothingLater(t *testing.T) {
	y := New(0, forgiving, 0)
	y.AddReport(holding(7, usage(0, 1, 100)), second(0), always)
	y = y.Resume(0, forgiving, second(1))
	y.AddReport(holding(8, usage(0, 2, 100)), second(1), always)
	if got := len(y.TakeBreaches()); got != 0 {
		t.Errorf("%d breaches right after a loss", got)
	}
	late := second(1).Add(maxForgiven)
	y.AddReport(holding(8, usage(0, 2, 100)), late.Add(1e9), always)
	y.AddReport(holding(8, usage(0, 2, 100)), late.Add(2e9), always)
	y.AddReport(holding(8, usage(0, 2, 320)), late.Add(3e9), always)
	if got := len(y.TakeBreaches()); got != 1 {
		t.Errorf("%d breaches two days after a loss", got)
	}
}
