package audit

import (
	"testing"
	"time"

	"aliquot/budget"
)

// TestUseOfAColdKeyCountsOnceItIsHot: what regions tell of a key that the ledger does not have counts when the key is
// reported under the same limit within a minute.
func TestUseOfAColdKeyCountsOnceItIsHot(t *testing.T) {
	never := func(budget.KeyID) bool { return false }
	told := func() *Audit {
		y := New(0, strictly, 0)
		for region := range 2 {
			y.AddSpent(region, beside(60, 0), second(1), second(1), never)
		}
		return y
	}
	y := told()
	if y.AddReport(usage(0, 1, 0), second(2), always); len(y.breaches) != 1 || !near(y.breaches[0].Admitted, 120) || !near(y.breaches[0].ByRegion[1], 60) {
		t.Errorf("%+v; 120 in a second are more than 100 + 10", y.breaches)
	}
	if y.AddReport(usage(0, 1, 0), second(3), always); len(y.breaches) != 1 {
		t.Errorf("%+v; it counted twice", y.breaches)
	}
	late := second(1).Add(coldUseKept + time.Second)
	if y = told(); len(y.breaches) != 0 {
		t.Errorf("%+v before the key is hot", y.breaches)
	}
	if y.AddReport(usage(0, 1, 0), late, always); len(y.breaches) != 0 || y.cold.count != 0 {
		t.Errorf("%+v after a minute; %d are kept", y.breaches, y.cold.count)
	}
	y = told()
	if y.AddReport(by(1, 50, usage(0, 1, 0)), second(2), always); len(y.breaches) != 0 {
		t.Errorf("%+v under another limit", y.breaches)
	}
	for range 3 * maxColdUse {
		y.AddSpent(1, beside(60, 0), second(1), second(1), never)
	}
	if y.cold.count > maxColdUse {
		t.Errorf("%d statements are remembered", y.cold.count)
	}
}
