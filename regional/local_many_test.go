package regional

import "testing"

// TestSeveralLimitsAreHeldTogether: a check of two limits is decided from memory as one of
// one limit is.
func TestSeveralLimitsAreHeldTogether(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		const text = "defaults: {enforcement: strict}\nrules:\n  - {id: r0, params: {capacity: 1000000, refill_rate: 1000000}}\n  - {id: r1, params: {capacity: 500000, refill_rate: 500000}}\n"
		d, _ := startLive(t, testConfig(newLeader(t, text).address()))
		const callers, each = 8, 1000
		before := sampleOf(t, scrape(t, d), "aliquot_store_call_groups_sum")
		exactly(t, "all", int(hammer(t, d, callers, each, same("hot"))), callers*each, d)
		if asked := sampleOf(t, scrape(t, d), "aliquot_store_call_groups_sum") - before; asked > callers*each/4 { // a tenth on a fast machine: a chunk lasts for 100 ms
			t.Errorf("the store was asked %.0f times", asked)
		}
	})
}
