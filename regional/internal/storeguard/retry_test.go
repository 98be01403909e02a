package storeguard

import "testing"

// TestRetryBudget: some retries are there at once, and after them one for every ten calls.
func TestRetryBudget(t *testing.T) {
	var b retryBudget
	for n := range maxRetriesSaved {
		if !b.Retry() {
			t.Fatalf("the first %d are free, number %d was refused", maxRetriesSaved, n+1)
		}
	}
	if b.Retry() {
		t.Error("more retries at once than were saved")
	}
	retried := 0
	for range 1000 {
		b.Called()
		if b.Retry() {
			retried++
		}
	}
	if retried != 1000/retryCost {
		t.Errorf("%d retries of 1000 calls", retried)
	}
	for range 10_000 {
		b.Called()
	}
	for retried = 0; b.Retry(); retried++ {
	}
	if retried != maxRetriesSaved {
		t.Errorf("%d retries saved", retried)
	}
}
