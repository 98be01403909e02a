package service

import (
	"testing"
	"time"

	"aliquot/budget"
)

// The timing names the next lease, and for how long it waits, only while a change is under way.
func TestTimingNamesTheNextLease(t *testing.T) {
	steady := budget.NewConfig([]string{"us", "eu"}, 10*time.Second, 20_000)
	if got := timingToWire(&steady); got.GetLease().AsDuration() != 10*time.Second || got.GetRho() != 0.02 || got.LeaseNext != nil || got.LeaseWait != nil {
		t.Errorf("without a change: %v", got)
	}
	changing := steady
	changing.LeaseNext, changing.LeaseWait, changing.RhoRising = 5*time.Second, 12*time.Second, true
	got := timingToWire(&changing)
	if got.GetLeaseNext().AsDuration() != 5*time.Second || got.GetLeaseWait().AsDuration() != 12*time.Second || !got.GetRhoRising() {
		t.Errorf("during a change: %v", got)
	}
}
