package sim

import "testing"

// Every bug that is put in from outside is seen within a fixed number of worlds, in
// one that is whole without it.
func TestPlantedBugsAreCaught(t *testing.T) {
	plants := []struct {
		name  string
		plant plant
	}{
		{"grant twice", grantTwice},
		{"full bucket on growth", fullOnGrow},
		{"every contents started full", fullAfterFlush},
		{"missing hot record is cold", missingHotIsCold},
		{"floor after T", resumeEarly},
		{"generation without epoch", genWithoutEpoch},
		{"old records trusted", trustOldRecords},
		{"lease from receipt", leaseFromReceipt},
		{"no deadlines in the store", noDeadlines},
		{"no verify", noVerify},
		{"ledger of targets", ledgerOfTargets},
		{"elastic refill at the whole rate", elasticRate},
		{"elastic record kept as long as a strict one", strictTTL},
		{"floor raised before the others acknowledged", floorsUnasked},
		{"floor acknowledged by a Hello", ackByHello},
		{"floor not written down", fileLate},
		{"plan of other floors applied", lateGrowths},
		{"floor taken back under another daemon", heardIgnored},
		{"what was admitted without the store is not debited", noDebit},
	}
	// What has to meet for these is rare: a lost shrink and a new leader; a call
	// that is stuck while its daemon is cut off.
	needs := map[plant]Options{
		ledgerOfTargets: {faults: []fault{loss, leaderDies, leaderLingers, cutFromLeader, cutOneWay}},
		noDeadlines:     {faults: []fault{stuckStore, stuckForAll, cutBothWays, pauseDaemon}, Regions: 2, Keys: 1},
		floorsUnasked:   {faults: []fault{reweight, drainRegion}},
		ackByHello:      {faults: []fault{reweight, drainRegion, loss}},
		fileLate:        {faults: []fault{reweight, drainRegion, restart, noCoordinators}},
		heardIgnored:    {faults: []fault{secondDaemon, cutBothWays}},
		noDebit:         {faults: []fault{stuckForAll, suspendMachine}, Keys: 2},
		lateGrowths:     {faults: []fault{reweight, slowLog}, confined: true, Keys: 8},
	}
	// Where the search begins: a little before the first world that is known to do, so
	// that the test does not take long.
	from := map[plant]uint64{strictTTL: 35, leaseFromReceipt: 40}
	for _, x := range plants[:plantsTried] {
		p := x.plant
		t.Run(x.name, func(t *testing.T) {
			opts := needs[p]
			planted := opts
			planted.plant = p
			for seed := from[p]; seed < from[p]+300; seed++ {
				w := live(seed, planted, worldSpan-recovery)
				if w.failure == nil {
					continue
				}
				if clean := live(seed, opts, worldSpan-recovery); clean.failure == nil {
					t.Logf("seed %d, at %v: %s", seed, w.failure.At, w.failure.What)
					return
				}
			}
			t.Error("not caught")
		})
	}
}
