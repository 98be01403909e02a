package sim

import "testing"

// TestAStoreLostForOneOfTwoDaemons: worlds in which regions have two daemons for a while, and
// single daemons lose their way to the store, or to the coordinators.
func TestAStoreLostForOneOfTwoDaemons(t *testing.T) {
	opts, err := Options{Lease: 3e9}.Confine("second daemon", "store lost for one daemon", "cut both ways", "leader dies")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(12) {
		if v := One(seed, opts); v != nil {
			t.Fatalf("seed %d: %v", seed, v)
		}
	}
}
