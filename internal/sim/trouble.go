package sim

import (
	"math/rand/v2"
	"slices"

	"aliquot/internal/sim/timeline"
)

// Streams of random numbers besides the world's own: when single faults come, the details of each,
// and which rules have chunks. A world from which some faults are left out so still has the others,
// at the same times.
const (
	troubleStream = 0x74726f75626c65
	faultStream   = 0x6661756c74
	cachedStream  = 0x636163686564
	clockStream   = 0x636c6f636b
	forgiveStream = 0x666f7267697665
)

// mishap is one single fault that was caused.
type mishap struct {
	number int
	kind   fault
	region int
	at     int64
}

// trouble causes one fault, if this world has its kind, and plans the next.
func (w *world) trouble() {
	if w.Now() >= w.faultsEnd {
		return
	}
	const singles = int(ownKinds - steadyKinds)
	if f := steadyKinds + fault(w.troubles.IntN(singles)); w.faults[f] {
		w.strike(f)
	}
	w.After(timeline.Exponential(w.troubles, w.faultGap/int64(singles)*3), w.trouble)
}

// troubleClocks causes faults of clocks.
func (w *world) troubleClocks() {
	if w.Now() >= w.faultsEnd {
		return
	}
	if f := ownKinds + fault(w.clockTrouble.IntN(int(storeCut-ownKinds))); w.faults[f] {
		w.strike(f)
	}
	w.After(timeline.Exponential(w.clockTrouble, 5*second), w.troubleClocks)
}

// strike causes the next fault, unless it is left out.
func (w *world) strike(f fault) {
	number := w.struck
	w.struck++
	if w.opts.Only != nil && !slices.Contains(w.opts.Only.Faults, number) {
		return
	}
	own := w.Rand
	w.Rand = rand.New(rand.NewPCG(w.seed^faultStream, uint64(number)))
	region := w.Rand.IntN(len(w.stores))
	if w.cause(f, region) {
		w.faulted++
		w.caused[f]++
		w.mishaps = append(w.mishaps, mishap{number: number, kind: f, region: region, at: w.Now()})
	}
	w.Rand = own
}

// cause lets one fault happen. It returns false if there is nothing to which the fault could
// happen.
func (w *world) cause(f fault, region int) bool {
	n := w.nodeOf(region)
	switch f {
	case leaderDies, leaderLingers, pauseCoordinator, cutFromLeader:
		if w.leader == nil {
			return false
		}
	case restart, secondDaemon, pauseDaemon, suspendMachine:
		if n == nil {
			return false
		}
	case stopClocks:
		if n == nil || w.counts() {
			return false
		}
	case addRegion, drainRegion, reweight, fenceRegion, retime:
		return w.operate(f, region)
	}
	if f == storeCut && !w.cutStore(region) {
		return false
	}
	w.Note(f.String(), region, int64(f), 0, 0, 0)
	switch f {
	case leaderDies:
		w.leader.stop()
		w.electSoon(w.Between(50*milli, 8*second))
	case leaderLingers:
		w.linger()
	case noCoordinators:
		for len(w.coords) > 0 {
			w.coords[0].stop()
		}
		w.electSoon(w.Between(second, 120*second))
	case restart:
		w.replace(n, w.Between(100*milli, 10*second))
	case flush:
		w.stores[region].flush()
	case flushAndRestart:
		w.stores[region].flush()
		w.replace(n, w.Between(100*milli, 5*second))
	case rollBack:
		w.stores[region].rollBack()
	case secondDaemon:
		w.doubleUp(n)
	case pauseDaemon:
		n.pause(w.Between(second, 60*second))
	case pauseCoordinator:
		w.leader.pausedAt, w.leader.pauseTo = w.Now(), w.Now()+w.Between(100*milli, 20*second)
		if w.Chance(1, 2) {
			w.After(w.Between(0, 5*second), w.linger)
		}
	case cutOneWay, cutBothWays:
		up := f == cutBothWays || w.Chance(1, 2)
		w.cutUp[region], w.cutDown[region] = up, f == cutBothWays || !up
		w.After(w.Between(100*milli, 60*second), func() { w.cutUp[region], w.cutDown[region] = false, false })
	case cutFromLeader:
		c := w.leader
		c.cutOff[region] = true
		w.After(w.Between(second, 30*second), func() { c.cutOff[region] = false })
	case stuckForAll:
		w.stuck[region] = w.Now() + w.Between(100*milli, 30*second)
	case suspendMachine:
		d := w.Between(second, 120*second)
		w.stuck[region] = w.Now() + d
		n.pause(d)
	case stepClock:
		w.stepClock(region)
	case stopClocks:
		w.stopClocks(region, w.Between(second, 3*second))
	case turnClocks:
		w.turnClocks(region)
	case lowerLimit, raiseLimit, replaceRule, remakeRule, stageLimit:
		w.operateRules(f)
	}
	return true
}
