package compare

import (
	"testing"
	"time"
)

// Faults of other systems, as workloads.

// Gubernator 208: a node that did not own a key never denied.
func TestWhoDoesNotHoldTheShareDenies(t *testing.T) {
	w := Single()
	second := greedy(1, w.Keys[0])
	second.From, w.Length = 20*time.Second, 40*time.Second
	w.Measured = 25 * time.Second
	w.Sources = append(w.Sources, second)
	o := outcomeOf(t, "strict", w)
	for i, part := range o.Regions[:2] {
		if part.Admitted > part.Offered/10 {
			t.Errorf("region %d admits %d of %d at twenty times the limit", i, part.Admitted, part.Offered)
		}
	}
	if o.Ratio > 1 {
		t.Errorf("together they admit %.4f of the bound", o.Ratio)
	}
}

// Gubernator 225: counters were never refilled again.
func TestBucketsRefillInEveryRegion(t *testing.T) {
	w := Pulse(3 * time.Second)
	o := outcomeOf(t, "strict", w)
	earned := float64(w.Keys[0].Rate) * w.Length.Seconds()
	if got := float64(o.Admitted); got < .9*earned {
		t.Errorf("ten bursts admit %.0f of %.0f earned", got, earned)
	}
	for i, part := range o.Regions {
		if part.Admitted < o.Admitted/4 {
			t.Errorf("region %d admits %d of %d", i, part.Admitted, o.Admitted)
		}
	}
}

// Unkey's RFC 0015: denied requests were told on as usage, and blocked everyone.
func TestDenialsAreNoUsage(t *testing.T) {
	w := Flood()
	w.Sources[1].Rate = 10
	o := outcomeOf(t, "strict", w)
	if flood := o.Regions[0]; flood.Admitted < 60*30 {
		t.Errorf("the flooded region itself admits %d in 30 s of 90 a second", flood.Admitted)
	}
	if other := o.Regions[1]; float64(other.Admitted) < .99*float64(other.Offered) {
		t.Errorf("beside the flood %d of %d are admitted", other.Admitted, other.Offered)
	}
}
