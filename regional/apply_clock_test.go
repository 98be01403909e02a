package regional

import (
	"testing"

	"aliquot/budget"
)

// A store that has come back with other contents has another clock, which nobody has read
// yet when the next session begins: no session is to end for that.
func TestChangesAreAppliedInAStoreWhoseClockIsNotKnownYet(t *testing.T) {
	d, _ := startLive(t, testConfig(newLeader(t, oneRule).address()))
	d.auth.Clock.Reset()
	change := budget.ShareChange{
		Key: budget.KeyID{Rule: 1}, Limit: budget.KeyLimit{Capacity: 100e6, Rate: 10e6},
		Gen: budget.Gen{Epoch: 1, Counter: 1}, Share: budget.Share{Rate: 1, Burst: 1},
	}
	if out := d.reporter.apply(t.Context(), []budget.ShareChange{change}); len(out) != 1 || out[0].Failed {
		t.Errorf("the change was not applied: %+v", out)
	}
}
