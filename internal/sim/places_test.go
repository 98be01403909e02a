package sim

import (
	"testing"

	"aliquot/internal/sim/faults"
)

// TestDaemonsThatStopWithTheirStores: no promise is broken where daemons stop in order, their stores are emptied, and
// they come back with what they remembered, also where other daemons have served meanwhile and messages are lost.
func TestDaemonsThatStopWithTheirStores(t *testing.T) {
	for _, beside := range [][]faults.Kind{
		{faults.StopInOrder},
		{faults.StopInOrder, faults.Loss, faults.Duplicates, faults.Reordering, faults.SlowLog, faults.LeaderDies, faults.LeaderLingers, faults.Flush, faults.Drifting},
		{faults.StopInOrder, faults.StuckStore, faults.StuckForAll, faults.CutBothWays, faults.SecondDaemon, faults.Restart, faults.FlushAndRestart, faults.Loss, faults.LowerLimit, faults.RaiseLimit},
	} {
		job := Job{Seed: 1, Hours: 1, Options: Options{faults: beside, confined: true}}
		r := job.Run(t.Context())
		for _, v := range r.Violations {
			t.Errorf("%v", v)
		}
		if r.Kinds[faults.StopInOrder] == 0 {
			t.Error("no daemon has stopped")
		}
	}
}
