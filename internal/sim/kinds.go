package sim

import "slices"

// fault is a kind of trouble. Every world draws which kinds it has. A few kinds often find more
// than all of them together.
type fault int

// The first kinds are steady trouble: they are always there, and show in single messages and
// commands. The others are caused one by one.
const (
	loss fault = iota
	duplicates
	reordering
	stuckStore
	slowLog
	drifting
	leaderDies
	leaderLingers
	noCoordinators
	restart
	flush
	flushAndRestart
	rollBack
	secondDaemon
	pauseDaemon
	pauseCoordinator
	cutOneWay
	cutBothWays
	cutFromLeader
	stuckForAll
	suspendMachine
	stepClock
	lowerLimit
	raiseLimit
	replaceRule
	remakeRule
	stageLimit
	addRegion
	drainRegion
	reweight
	fenceRegion
	retime
	// The following kinds have their own draws and times, so that worlds without them stay as they
	// would be if the kinds did not exist.
	stopClocks
	turnClocks
	storeCut
	faultKinds

	steadyKinds = leaderDies
	ownKinds    = stopClocks
)

// FaultName returns the name of a kind of fault. Kinds count from 0 to FaultKinds - 1.
func FaultName(kind int) string {
	return [faultKinds]string{
		"messages lost", "messages repeated", "messages reordered", "store commands stuck", "slow commits",
		"drifting clocks", "leader dies", "leader lingers", "all coordinators stop", "daemon restarts",
		"store flushed", "store flushed and daemon restarts", "store rolled back", "second daemon",
		"daemon paused", "coordinator paused", "cut one way", "cut both ways", "cut from the leader",
		"all store commands stuck", "region's machine suspended", "store's clock set", "limit lowered", "limit raised",
		"rule replaced", "rule deleted and made again", "limit staged", "region added", "region drained", "region reweighted", "region fenced",
		"timing changed", "region's machine stood still", "clock's rate changed", "store lost for one daemon",
	}[kind]
}

// FaultKinds is how many kinds of faults there are.
const FaultKinds = int(faultKinds)

func (f fault) String() string { return FaultName(int(f)) }

// steady reports whether the trouble is always there.
func (f fault) steady() bool { return f < steadyKinds }

func faultNamed(name string) (fault, bool) {
	for f := range faultKinds {
		if f.String() == name {
			return f, true
		}
	}
	return 0, false
}

// drawFaults chooses the world's kinds of trouble, and how much of it there is. In most worlds a
// single fault comes every few seconds. In some they are so rare that the world comes to rest in
// between.
func (w *world) drawFaults() {
	for f := range ownKinds {
		w.faults[f] = w.Chance(1, 2) && !w.opts.Calm
	}
	for f := ownKinds; f < storeCut; f++ {
		w.faults[f] = w.clockTrouble.IntN(8) == 0 && !w.opts.Calm && w.opts.driven == nil
	}
	w.faults[storeCut] = w.cuts.IntN(2) == 0 && w.faults[secondDaemon]
	if w.Chance(1, 2) { // no operator in this world
		for f := addRegion; f <= retime; f++ {
			w.faults[f] = false
		}
	}
	if w.Chance(1, 2) { // no changes of rules either
		for f := lowerLimit; f <= stageLimit; f++ {
			w.faults[f] = false
		}
	}
	w.faultGap = w.Between(second, 15*second)
	if w.Chance(1, 4) {
		w.faultGap *= 5
	}
	if w.opts.confined {
		clear(w.faults[:])
	}
	for _, f := range w.opts.faults {
		w.faults[f] = true
	}
	if w.faults[secondDaemon] {
		// Nothing fences a daemon that alone has not learned that a rule is gone.
		w.faults[replaceRule], w.faults[remakeRule] = false, false
	}
	for f := range steadyKinds {
		w.faults[f] = w.faults[f] && (w.opts.Only == nil || slices.Contains(w.opts.Only.Steady, f.String()))
	}
}

// operated reports whether an operator changes the regions of this world.
func (w *world) operated() bool {
	return slices.Contains(w.faults[addRegion:ownKinds], true)
}

// has reports whether there is steady trouble of a kind now.
func (w *world) has(f fault) bool { return w.faults[f] && w.Now() < w.faultsEnd }

// strikes draws whether steady trouble hits a single message or command; the chance is one in once.
func (w *world) strikes(f fault, once int) bool {
	if !w.has(f) || !w.Chance(1, once) {
		return false
	}
	w.caused[f]++
	return true
}

// IsSteady reports whether a kind of trouble is always there, and not caused one by one.
func IsSteady(kind int) bool { return fault(kind).steady() }
