package sim

import "testing"

// Every bug that is put in from outside is seen, within a fixed number of worlds.
func TestPlantedBugsAreCaught(t *testing.T) {
	plants := map[string]plant{
		"lease from receipt": leaseFromReceipt, "no deadlines in the store": noDeadlines,
		"grant twice": grantTwice, "full bucket on growth": fullOnGrow,
		"missing hot record is cold": missingHotIsCold, "every contents started full": fullAfterFlush,
		"ledger of targets": ledgerOfTargets, "no verify": noVerify, "floor after T": resumeEarly,
		"generation without epoch": genWithoutEpoch, "old records trusted": trustOldRecords,
	}
	for name, p := range plants {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(60) {
				if w := live(seed, Options{plant: p}, worldSpan-recovery); w.failure != nil {
					t.Logf("seed %d, at %v: %s", seed, w.failure.At, w.failure.What)
					return
				}
			}
			t.Error("not caught")
		})
	}
}
