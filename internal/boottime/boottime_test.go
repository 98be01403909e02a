package boottime

import "testing"

func TestClockRunsForward(t *testing.T) {
	before := Now()
	if before <= 0 {
		t.Fatalf("the clock reads %d", before)
	}
	for range 1000 {
		after := Now()
		if after < before {
			t.Fatalf("the clock went back from %d to %d", before, after)
		}
		before = after
	}
}
