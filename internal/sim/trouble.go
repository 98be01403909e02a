package sim

import (
	"math/rand/v2"
	"slices"

	"aliquot/internal/sim/faults"
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
	kind   faults.Kind
	region int
	at     int64
}

// drawFaults chooses the world's kinds of trouble, and how much of it there is. In most worlds a
// single fault comes every few seconds. In some they are so rare that the world comes to rest in
// between.
func (w *world) drawFaults() {
	for f := range faults.Own {
		w.Faults.Kinds[f] = w.Chance(1, 2) && !w.opts.Calm
	}
	for f := faults.Own; f < faults.StoreCut; f++ {
		w.Faults.Kinds[f] = w.clockTrouble.IntN(8) == 0 && !w.opts.Calm && w.opts.driven == nil
	}
	w.Faults.Kinds[faults.StopInOrder] = w.stops.IntN(4) == 0 && !w.opts.Calm && w.opts.driven == nil
	w.Faults.Kinds[faults.StoreCut] = w.cuts.IntN(2) == 0 && w.Faults.Kinds[faults.SecondDaemon]
	if w.Chance(1, 2) { // no operator in this world
		for f := faults.AddRegion; f <= faults.Retime; f++ {
			w.Faults.Kinds[f] = false
		}
	}
	if w.Chance(1, 2) { // no changes of rules either
		for f := faults.LowerLimit; f <= faults.StageLimit; f++ {
			w.Faults.Kinds[f] = false
		}
	}
	w.faultGap = w.Between(second, 15*second)
	if w.Chance(1, 4) {
		w.faultGap *= 5
	}
	if w.opts.confined {
		clear(w.Faults.Kinds[:])
	}
	for _, f := range w.opts.faults {
		w.Faults.Kinds[f] = true
	}
	if w.Faults.Kinds[faults.SecondDaemon] {
		// Nothing fences a daemon that alone has not learned that a rule is gone.
		w.Faults.Kinds[faults.ReplaceRule], w.Faults.Kinds[faults.RemakeRule] = false, false
	}
	for f := range faults.Single {
		w.Faults.Kinds[f] = w.Faults.Kinds[f] && (w.opts.Only == nil || slices.Contains(w.opts.Only.Steady, f.String()))
	}
}

// operated reports whether an operator changes the regions of this world.
func (w *world) operated() bool {
	return slices.Contains(w.Faults.Kinds[faults.AddRegion:faults.Own], true)
}

// trouble causes one fault, if this world has its kind, and plans the next.
func (w *world) trouble() {
	if w.Faults.Over() {
		return
	}
	const singles = int(faults.Own - faults.Single)
	if f := faults.Single + faults.Kind(w.troubles.IntN(singles)); w.Faults.Kinds[f] {
		w.strike(f)
	}
	w.After(timeline.Exponential(w.troubles, w.faultGap/int64(singles)*3), w.trouble)
}

// troubleClocks causes faults of clocks.
func (w *world) troubleClocks() {
	if w.Faults.Over() {
		return
	}
	if f := faults.Own + faults.Kind(w.clockTrouble.IntN(int(faults.StoreCut-faults.Own))); w.Faults.Kinds[f] {
		w.strike(f)
	}
	w.After(timeline.Exponential(w.clockTrouble, 5*second), w.troubleClocks)
}

// cutStream draws which worlds have stores that are lost for one daemon, and when. The worlds
// otherwise stay as they would be without it.
const cutStream = 0x637574

// cutStores cuts single daemons off their stores.
func (w *world) cutStores() {
	if w.Faults.Over() {
		return
	}
	w.strike(faults.StoreCut)
	w.After(timeline.Exponential(w.cuts, 20*second), w.cutStores)
}

// stopStream draws which worlds have daemons that stop in order, and when.
const stopStream = 0x73746f70

// stopDaemons stops single daemons in order, and empties their stores.
func (w *world) stopDaemons() {
	if w.Faults.Over() {
		return
	}
	w.strike(faults.StopInOrder)
	w.After(timeline.Exponential(w.stops, 20*second), w.stopDaemons)
}

// strike causes the next fault, unless it is left out.
func (w *world) strike(f faults.Kind) {
	number := w.struck
	w.struck++
	if w.opts.Only != nil && !slices.Contains(w.opts.Only.Faults, number) {
		return
	}
	own := w.Rand
	w.Rand = rand.New(rand.NewPCG(w.seed^faultStream, uint64(number)))
	region := w.Rand.IntN(len(w.Stores))
	if w.cause(f, region) {
		w.faulted++
		w.Faults.Caused[f]++
		w.mishaps = append(w.mishaps, mishap{number: number, kind: f, region: region, at: w.Now()})
	}
	w.Rand = own
}

// cause lets one fault happen. It returns false if there is nothing to which the fault could
// happen.
func (w *world) cause(f faults.Kind, region int) bool {
	n := w.NodeOf(region)
	switch f {
	case faults.LeaderDies, faults.LeaderLingers, faults.PauseCoordinator, faults.CutFromLeader:
		if w.leader == nil {
			return false
		}
	case faults.Restart, faults.SecondDaemon, faults.PauseDaemon, faults.SuspendMachine, faults.StopInOrder:
		if n == nil {
			return false
		}
	case faults.StopClocks:
		if n == nil || w.Counts() {
			return false
		}
	case faults.AddRegion, faults.DrainRegion, faults.Reweight, faults.FenceRegion, faults.Retime:
		return w.operate(f, region)
	}
	if f == faults.StoreCut && !w.CutStore(region) {
		return false
	}
	w.Note(f.String(), region, int64(f), 0, 0, 0)
	switch f {
	case faults.LeaderDies:
		w.leader.stop()
		w.electSoon(w.Between(50*milli, 8*second))
	case faults.LeaderLingers:
		w.linger()
	case faults.NoCoordinators:
		for len(w.coords) > 0 {
			w.coords[0].stop()
		}
		w.electSoon(w.Between(second, 120*second))
	case faults.Restart:
		w.Replace(n, w.Between(100*milli, 10*second))
	case faults.Flush:
		w.Stores[region].Flush()
	case faults.FlushAndRestart:
		w.Stores[region].Flush()
		w.Replace(n, w.Between(100*milli, 5*second))
	case faults.RollBack:
		w.Stores[region].RollBack()
	case faults.SecondDaemon:
		w.doubleUp(n)
	case faults.PauseDaemon:
		n.Pause(w.Between(second, 60*second))
	case faults.PauseCoordinator:
		w.leader.pausedAt, w.leader.pauseTo = w.Now(), w.Now()+w.Between(100*milli, 20*second)
		if w.Chance(1, 2) {
			w.After(w.Between(0, 5*second), w.linger)
		}
	case faults.CutOneWay, faults.CutBothWays:
		up := f == faults.CutBothWays || w.Chance(1, 2)
		w.cutUp[region], w.cutDown[region] = up, f == faults.CutBothWays || !up
		w.After(w.Between(100*milli, 60*second), func() { w.cutUp[region], w.cutDown[region] = false, false })
	case faults.CutFromLeader:
		c := w.leader
		c.cutOff[region] = true
		w.After(w.Between(second, 30*second), func() { c.cutOff[region] = false })
	case faults.StuckForAll:
		w.Stuck[region] = w.Now() + w.Between(100*milli, 30*second)
	case faults.SuspendMachine:
		d := w.Between(second, 120*second)
		w.Stuck[region] = w.Now() + d
		n.Pause(d)
	case faults.StepClock:
		w.stepClock(region)
	case faults.StopClocks:
		w.StopClocks(region, w.Between(second, 3*second))
	case faults.StopInOrder:
		w.stopDaemon(n)
	case faults.TurnClocks:
		w.TurnClocks(region)
		if w.leader != nil {
			w.leader.clock.Run(w.Now(), w.DrawRate())
		}
	case faults.LowerLimit, faults.RaiseLimit, faults.ReplaceRule, faults.RemakeRule, faults.StageLimit:
		w.operateRules(f)
	}
	return true
}
