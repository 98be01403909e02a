package faults

// Kind is a kind of trouble. Every world draws which kinds it has. A few kinds often find more
// than all of them together.
type Kind int

// The first kinds are steady trouble: they are always there, and show in single messages and
// commands. The others are caused one by one.
const (
	Loss Kind = iota
	Duplicates
	Reordering
	StuckStore
	SlowLog
	Drifting
	LeaderDies
	LeaderLingers
	NoCoordinators
	Restart
	Flush
	FlushAndRestart
	RollBack
	SecondDaemon
	PauseDaemon
	PauseCoordinator
	CutOneWay
	CutBothWays
	CutFromLeader
	StuckForAll
	SuspendMachine
	StepClock
	LowerLimit
	RaiseLimit
	ReplaceRule
	RemakeRule
	StageLimit
	AddRegion
	DrainRegion
	Reweight
	FenceRegion
	Retime
	// The following kinds have their own draws and times, so that worlds without them stay as they
	// would be if the kinds did not exist.
	StopClocks
	TurnClocks
	StoreCut
	StopInOrder

	// Count is how many kinds there are.
	Count

	// Single is the first kind that is caused one by one, and Own the first one with its own draws.
	Single = LeaderDies
	Own    = StopClocks
)

// String returns the name of the kind.
func (f Kind) String() string {
	return [Count]string{
		"messages lost", "messages repeated", "messages reordered", "store commands stuck", "slow commits",
		"drifting clocks", "leader dies", "leader lingers", "all coordinators stop", "daemon restarts",
		"store flushed", "store flushed and daemon restarts", "store rolled back", "second daemon",
		"daemon paused", "coordinator paused", "cut one way", "cut both ways", "cut from the leader",
		"all store commands stuck", "region's machine suspended", "store's clock set", "limit lowered", "limit raised",
		"rule replaced", "rule deleted and made again", "limit staged", "region added", "region drained", "region reweighted", "region fenced",
		"timing changed", "region's clocks stopped", "clock's rate changed", "store lost for one daemon",
		"daemon stopped in order",
	}[f]
}

// Steady reports whether the trouble is always there.
func (f Kind) Steady() bool { return f < Single }

// Named returns the kind of a name, and whether there is one.
func Named(name string) (Kind, bool) {
	for f := range Count {
		if f.String() == name {
			return f, true
		}
	}
	return 0, false
}
