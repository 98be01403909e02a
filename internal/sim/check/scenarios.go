package check

import (
	"slices"
	"strings"
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

// Scenarios returns all scenarios. Each has few kinds of faults, so that the search gets far with
// them; together they have all kinds.
func Scenarios() []Scenario {
	two := Scenario{
		Regions: 2, Limit: tokens(4, 2), Lease: 3 * time.Second, RhoPPM: 100_000, Quantum: 1100 * time.Millisecond,
		Root: lent, Budget: 2, Turns: 2,
	}
	three := two
	three.Regions, three.Limit, three.Budget = 3, tokens(6, 3), 2
	// These clocks are the worst for a hand-over: those of the lender are fast, all others slow.
	hasty := two
	hasty.Fast, hasty.Slow = DaemonB|StoreB, DaemonA|StoreA|Leader
	// These clocks are the worst for a lease: the daemon's is fast and its store's slow.
	torn := two
	torn.Fast, torn.Slow = DaemonA|StoreB|Leader, StoreA|DaemonB

	var all []Scenario
	add := func(sc Scenario, name, about string, faults uint64, change func(*Scenario)) {
		sc.Name, sc.About, sc.Faults = name, about, faults
		if change != nil {
			change(&sc)
		}
		all = append(all, sc)
	}
	add(two, "cold", "nothing has happened yet", Lose|Hold|SlowLog|NewLead, atStart)
	add(three, "cold-3", "nothing has happened yet", Lose|SlowLog|NewLead, atStart)
	add(torn, "cold-order", "the key becomes hot, in every order of messages", Lose|Hold|Repeat, func(sc *Scenario) {
		sc.Root, sc.AnyOrder = awake, true
	})
	add(two, "cold-late", "the key becomes hot while b opens a session", Lose|Hold|NewLead, func(sc *Scenario) { sc.Root, sc.At = late, 2 })
	add(hasty, "lent", "b has lent all it can to a", Lose|Hold|Cut|NewLead, nil)
	add(hasty, "lent-order", "the same, in every order of messages", Lose|Hold|Repeat|SlowLog, func(sc *Scenario) { sc.AnyOrder = true })
	add(two, "lent-greedy", "the same, and both spend all the time", Lose|Cut|SlowLog|NewLead, func(sc *Scenario) { sc.Greedy = true })
	add(three, "lent-3", "c has lent all it can, and b as well, to a", Lose|Cut|NewLead, func(sc *Scenario) {
		sc.Fast, sc.Slow = DaemonC|StoreC, DaemonA|StoreA|Leader
	})
	add(three, "lent-3-order", "the same, in every order of messages", Lose|Hold, func(sc *Scenario) { sc.AnyOrder, sc.Budget = true, 1 })
	add(two, "new-leader", "a has nearly all, and the leader dies with a plan on its way", NewLead|NoLeader|Lose|Hold, func(sc *Scenario) { sc.Root = moving })
	add(hasty, "deposed", "a deposed leader lingers", Linger|Lose|Hold|SlowLog, func(sc *Scenario) { sc.Root = moving })
	add(hasty, "deposed-both", "a deposed leader lingers, and both regions still ask it", Lose|Hold|Restart, func(sc *Scenario) { sc.Root = deposed })
	// Without proofs a deposed leader still shrinks a's share when b is silent. So b has to turn to
	// the new leader late, and to get its share soon.
	add(two, "deposed-split", "a deposed leader lingers and both regions ask it, until b starts again and asks the new one", Restart, func(sc *Scenario) {
		sc.Lease, sc.Root, sc.At, sc.Budget, sc.Turns, sc.Small = 6*time.Second, outdated, 2, 1, 0, true
		sc.Fast, sc.Slow = Leader, DaemonA|StoreA
	})
	add(two, "deposed-amnesia", "a deposed leader lingers, and regions lose their memory", Linger|Forget|Flush, func(sc *Scenario) { sc.Budget = 4 })
	add(three, "deposed-3", "a deposed leader lingers", Linger|Lose|NewLead, func(sc *Scenario) { sc.Root = moving })
	add(hasty, "cut-off", "b is cut off and about to take back its floor", Cut|Lose|Hold|Restart, func(sc *Scenario) { sc.Root = cutOff })
	add(torn, "cut-off-torn", "the same with other clocks", Cut|NewLead|Restart|Stick, func(sc *Scenario) { sc.Root = cutOff })
	add(three, "cut-off-3", "c is cut off and about to take back its floor", Cut|Lose|NewLead, func(sc *Scenario) {
		sc.Root = cutOff
		sc.Fast, sc.Slow = DaemonC|StoreC, DaemonA|StoreA|Leader
	})
	add(two, "cold-flush", "the key is cold, and stores lose everything", Flush|Forget|Hold, func(sc *Scenario) { sc.Root = awake })
	add(two, "flush", "stores lose everything, daemons their memory", Flush|Restart|Forget, func(sc *Scenario) { sc.Budget = 3 })
	add(torn, "flush-cut", "stores lose everything, regions are cut off", Flush|Forget|Cut, nil)
	add(two, "flush-lost", "stores lose everything, messages get lost", Flush|Lose|Hold|Stick, nil)
	add(hasty, "roll-back", "stores fall back to an older copy", RollBack|Restart|Lose|Cut, nil)
	add(two, "twins", "a region has two daemons", Double|Lose|Hold, nil)
	add(hasty, "twins-cut", "a region has two daemons, and is cut off", Double|Cut|Restart|NewLead, func(sc *Scenario) { sc.Root = cutOff })
	add(two, "twins-replaced", "a daemon was replaced, and its lease outlasts those of the next one", Cut|NewLead, func(sc *Scenario) {
		sc.Lease, sc.Root, sc.At = 15*time.Second, replaced, 1
	})
	add(two, "twins-leaders", "b has its floor, a's store has lost its contents, and of a's daemons, which ask one leader after the other, one remembers less", NewLead|Lose, func(sc *Scenario) {
		sc.Limit = rightsOf(limit.SlidingLog, 4, 4*sc.Quantum)
		sc.Root, sc.At, sc.Budget, sc.Turns = remembered, 1, 2, 0
	})
	add(torn, "stuck", "store commands get stuck", Stick|Hold|Lose, nil)
	add(two, "stuck-flush", "store commands get stuck, contents are lost", Stick|Flush|Restart|NewLead, nil)
	add(two, "nobody-leads", "nobody leads for a while", NoLeader|Cut|Restart, nil)
	add(two, "cooling", "the key has not been used for a while", Lose|Hold|NewLead|Restart, func(sc *Scenario) { sc.Root = idle })
	add(two, "cooling-flush", "the same, and stores lose everything", Flush|Forget|Lose, func(sc *Scenario) { sc.Root = idle })
	add(two, "cooling-order", "the same, in every order of messages", Lose|Hold|Repeat, func(sc *Scenario) { sc.Root, sc.AnyOrder = idle, true })
	add(two, "elastic", "an elastic key becomes hot", Lose|Hold|Flush|NewLead, func(sc *Scenario) { sc.Elastic, sc.Root = true, awake })
	add(two, "elastic-cooling", "an elastic key cools down", Lose|NewLead|Restart|Flush, func(sc *Scenario) { sc.Elastic, sc.Root = true, idle })
	add(three, "elastic-3", "an elastic key becomes hot", Lose|Cut, func(sc *Scenario) { sc.Elastic, sc.Root = true, awake })
	add(hasty, "one-token", "a limit of one token is lent whole", Lose|Cut|Restart|NewLead, func(sc *Scenario) { sc.Limit = tokens(1, 1) })
	add(two, "one-token-flush", "the same, and stores lose everything", Flush|Forget|Lose, func(sc *Scenario) { sc.Limit = tokens(1, 1) })
	add(two, "reweigh", "an operator changes weights", Reweigh|Lose|NewLead|Restart, nil)
	add(hasty, "reweigh-cut", "an operator changes weights while regions are cut off", Reweigh|Cut|Flush, nil)
	add(two, "reweigh-late", "b's floor is about to grow, and it has not heard that the key is hot", Stick|Lose|Restart, func(sc *Scenario) { sc.Root, sc.At = raised, 2 })
	add(three, "drain-3", "an operator drains a region", Drain|Lose|Cut, nil)
	add(two, "drain-cold", "an operator drains a region while the key is cold", Drain|Lose|Forget, func(sc *Scenario) { sc.Root = awake })
	add(hasty, "retime", "an operator changes the lease", Retime|Lose|Cut|NewLead, nil)
	add(torn, "retime-cut", "an operator changes the lease while b is cut off", Retime|Restart|Cut, func(sc *Scenario) { sc.Root = cutOff })
	for _, a := range limit.Algorithms() {
		if !a.Counts() {
			continue
		}
		counted := two
		counted.Limit, counted.Turns = rightsOf(a, 4, 5500*time.Millisecond), 2
		name := strings.ReplaceAll(a.String(), "_", "-")
		add(counted, name, "a limit that counts", Lose|Cut|NewLead, func(sc *Scenario) { sc.Root = lentInUse })
		add(counted, name+"-flush", "a limit that counts, and stores lose everything", Flush|Restart|Hold, nil)
		counted.Fast, counted.Slow = hasty.Fast&^(StoreA|StoreB), hasty.Slow&^(StoreA|StoreB)
		add(counted, name+"-cut-off", "a limit that counts, and b is about to take back its floor", Cut|Lose|NewLead|Stick, func(sc *Scenario) { sc.Root = cutOff })
	}
	add(hasty, "home", "a limit that has a home", Lose|Cut|Restart|NewLead, func(sc *Scenario) { sc.Homed = true })
	add(hasty, "window", "a limit that counts by fixed windows of two quanta", Lose|Cut|NewLead|Restart, func(sc *Scenario) {
		sc.Limit = rightsOf(limit.FixedWindow, 4, 2*sc.Quantum)
	})
	add(hasty, "window-cut-off", "the same, and b is cut off and about to take back its floor", Cut|Lose|Flush|Restart, func(sc *Scenario) {
		sc.Limit, sc.Root = rightsOf(limit.FixedWindow, 4, 2*sc.Quantum), cutOff
	})
	add(two, "window-reweigh", "the same, and an operator changes weights", Reweigh|Lose|NewLead, func(sc *Scenario) {
		sc.Limit = rightsOf(limit.FixedWindow, 4, 2*sc.Quantum)
	})
	add(hasty, "log", "a limit of a sliding log of two quanta", Lose|Cut|NewLead|Flush, func(sc *Scenario) {
		sc.Limit = rightsOf(limit.SlidingLog, 4, 2*sc.Quantum)
	})
	add(torn, "slots", "a limit of slots in use for two quanta at the most", Lose|Cut|Hold|Flush, func(sc *Scenario) {
		sc.Limit, sc.Root = rightsOf(limit.Concurrency, 3, 2*sc.Quantum), cutOff
	})
	lends := func(root func(*world), at uint8, faults, turns int) func(*Scenario) {
		return func(sc *Scenario) { sc.Chunks, sc.Root, sc.At, sc.Budget, sc.Turns = true, root, at, faults, turns }
	}
	add(hasty, "chunks", "a takes tokens in advance, and replies get lost", Owe|Lose, lends(lent, 1, 2, 1))
	add(torn, "chunks-cut", "the same, and it was cut off", Cut|Owe, lends(cutHolder, 1, 1, 2))
	add(two, "chunks-flush", "the same, and its store loses everything", Flush|Restart|Owe, lends(lent, 1, 2, 1))
	add(two, "chunks-twins", "the same, and it has two daemons", Double|Owe, lends(lent, 1, 2, 1))
	add(two, "chunks-stuck", "the same, and changes of shares get stuck", Stick|Owe, lends(lent, 1, 2, 1))
	add(two, "chunks-cooling", "the same, and the key cools down", Restart|Owe, lends(idle, 1, 1, 1))
	add(hasty, "chunks-floor", "the same, and b is about to take back its floor", Owe|NewLead, lends(cutOff, 3, 1, 1))
	add(two, "chunks-elastic", "the same with an elastic key that gets hot", Owe|Lose, func(sc *Scenario) {
		lends(awake, 3, 1, 1)(sc)
		sc.Elastic = true
	})
	return append(all, small(all)...)
}

// important are the scenarios that are also searched completely, with one fault: a lease and a
// floor that are lent, a new leader, a deposed one, a key that becomes hot, lost contents, two
// daemons, floors and leases that change.
var important = []string{
	"cold", "cold-3", "cold-late", "lent", "lent-greedy", "lent-3", "new-leader", "deposed", "deposed-both", "deposed-3",
	"nobody-leads", "flush", "flush-cut", "twins", "one-token", "home", "reweigh", "retime",
}

// smallStates is the most states that a small scenario has.
const smallStates = 50_000

// small returns the important scenarios with one fault, in which the regions' demand stays what it
// is at the root.
func small(all []Scenario) []Scenario {
	var out []Scenario
	for _, sc := range all {
		if slices.Contains(important, sc.Name) {
			sc.Name, sc.About, sc.Small = sc.Name+"-1", sc.About+"; one fault, and all of what follows", true
			sc.Budget, sc.Turns = 1, 0
			out = append(out, sc)
		}
	}
	return out
}

// rightsOf returns a counting limit of whole tokens.
func rightsOf(a limit.Algorithm, capacity limit.Tokens, window time.Duration) limit.Limit {
	return limit.Limit{Algorithm: a, Capacity: capacity * limit.Token, Window: window}
}

// tokens returns a limit of whole tokens: a burst, and a rate a second.
func tokens(burst, rate int64) limit.Limit {
	return limit.Limit{Capacity: limit.Token * limit.Tokens(burst), Rate: limit.Rate{Micro: rate * int64(limit.Token)}}
}

func atStart(sc *Scenario) { sc.Root = nil }

// awake: every region has a lease; the key is cold.
func awake(w *world) { w.quietly(w.sc.none(), 3) }

// late: every region has a lease, and the last one has to open a session again. The key is cold.
func late(w *world) {
	awake(w)
	w.site(w.sc.Regions - 1).nodes[0].step(w, budget.StoreLost{})
}

// lent: every region lends all it can to the first one. It has done so for so long that the time
// makes no difference (except for chunks, of which a search of young contents sees more). A copy of
// each store is available.
func lent(w *world) {
	awake(w)
	w.quietly(0, 8)
	for !w.sc.Chunks && w.now < int64(ages(w.sc)) {
		w.quietly(0, 1)
	}
	for i := range w.sc.Regions {
		w.site(i).store.BackUp()
	}
}

// lentInUse: every region lends all it can to the first one, whose use counts for two more quanta.
// If the region is cut off now, it can use the limit again when its lease is about to end.
func lentInUse(w *world) {
	lent(w)
	for range 10 { // the sliding counter gives back gradually, and does not get there
		if w.sites[0].store.LastUse(w.now+2*int64(w.sc.Quantum)) == w.sc.Limit.Window.Microseconds() {
			return
		}
		w.quietly(0, 1)
	}
}

// moving: the first region has what the others can lend, and the last one starts to want it. The
// shrink has been acknowledged, and the growth is not committed.
func moving(w *world) {
	lent(w)
	last := int8(w.sc.Regions - 1)
	w.quietly(last, 2)
	w.do(event{passes, uint8(last), 0})
	w.do(event{allUp, 0, 0})
}

// deposed: the first region has what the others can lend, and the leader is deposed. Neither the
// leader nor the regions know that.
func deposed(w *world) {
	lent(w)
	w.do(event{leaderLinger, 0, 0})
	for i := range w.sc.Regions {
		w.do(event{asksOld, uint8(i), 0})
	}
}

// outdated: the first region has what the others can lend. The leader was deposed four quanta ago
// without its knowledge, and all regions still ask it.
func outdated(w *world) {
	deposed(w)
	w.quietly(int8(w.sc.Regions-1), 4)
}

// cutOff: the last region has lent all it can and has been cut off since. In two quanta it takes
// its floor back.
func cutOff(w *world) {
	lent(w)
	last := w.sc.Regions - 1
	s := w.site(last)
	s.cutUp, s.cutDown = true, true
	n := s.nodes[0]
	for n.machine.Phase(n.now(w).Add(2*w.sc.Quantum)) != budget.CutOff {
		w.quietly(0, 1)
		n = w.sites[last].nodes[0]
	}
}

// cutHolder: every region lends all it can to the first one. That one has been cut off since, and
// its lease is about to end.
func cutHolder(w *world) {
	lent(w)
	s := w.site(0)
	s.cutUp, s.cutDown = true, true
	w.quietly(0, 1)
}

// replaced: every region lends all it can to the first one. That one got a second daemon, and then
// a shorter lease was set. The first daemon does not know that and spends by a longer lease; it
// asks for a session again.
func replaced(w *world) {
	lent(w)
	w.do(event{doubles, 0, 1})
	w.do(event{retimes, 0, 0})
	w.quietly(0, 3)
	w.site(0).nodes[0].cut = false
}

// remembered: the last region held all that the first could lend, and the first daemon of that one was told so. Its
// second daemon was then given all. Nobody leads since, and the last region has taken its floor back.
func remembered(w *world) {
	awake(w)
	last := int8(w.sc.Regions - 1)
	w.quietly(last, 8)
	w.do(event{doubles, 0, 1})
	w.quietly(0, 12)
	s := w.site(int(last))
	s.cutUp, s.cutDown = true, true
	w.do(event{leaderGone, 0, 0})
	for w.sites[last].nodes[0].machine.Phase(w.sites[last].nodes[0].now(w)) != budget.CutOff {
		w.quietly(w.sc.none(), 1)
	}
	w.site(0).nodes[0].cut = false
	w.site(0).store.Flush()
}

// raised: the last region is given a larger weight, and the others have made room for it. Then the
// key becomes hot, and the last region does not learn of that before its floor grows.
func raised(w *world) {
	awake(w)
	last := w.sc.Regions - 1
	w.do(event{reweighs, uint8(last), 0})
	w.settle()
	for ready := false; !ready && w.broken == ""; _, ready = w.progress() {
		w.do(event{passes, uint8(w.sc.none()), 0})
		w.settle()
	}
	w.do(event{passes, 0, 0})
	w.do(event{allUp, 0, 0})
	w.do(event{commits, 0, 0})
	for i := range w.down {
		if w.down[i].to.region == last {
			w.do(event{losesDown, uint8(i), 0})
			break
		}
	}
	w.settle()
	w.do(event{advances, 0, 0})
}

// idle: the key was hot, and has been unused for almost long enough to cool down.
func idle(w *world) {
	lent(w)
	w.quietly(w.sc.none(), 8)
}
