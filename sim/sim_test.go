package sim

import "testing"

// Whatever happens, no promise is broken, and every world recovers.
func TestFaults(t *testing.T) {
	r := Run(1000, faultHours, Options{})
	t.Logf("%d worlds, %v, %d events, %d faults, %d tokens admitted", r.Worlds, r.Virtual, r.Events, r.Faults, r.Admitted)
	for _, v := range r.Violations {
		t.Error(v)
	}
}

// The same seed is the same run.
func TestReplay(t *testing.T) {
	a, b := Run(7, 0.3, Options{}), Run(7, 0.3, Options{})
	if a.Hash != b.Hash || a.Events != b.Events {
		t.Fatalf("hashes %x and %x after %d and %d events", a.Hash, b.Hash, a.Events, b.Events)
	}
}
