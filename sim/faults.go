package sim

// fault is a kind of trouble. Every world draws which kinds it has: a few kinds
// often find more than all of them together.
type fault int

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
	addRegion
	drainRegion
	reweight
	fenceRegion
	faultKinds
)

// FaultName names a kind of Result.Kinds.
func FaultName(kind int) string {
	return [faultKinds]string{
		"messages lost", "messages repeated", "messages reordered", "store commands stuck", "slow commits",
		"drifting clocks", "leader dies", "leader lingers", "all coordinators stop", "daemon restarts",
		"store flushed", "store flushed and daemon restarts", "store rolled back", "second daemon",
		"daemon paused", "coordinator paused", "cut one way", "cut both ways", "cut from the leader",
		"all store commands stuck", "region added", "region drained", "region reweighted", "region fenced",
	}[kind]
}

func (w *world) has(f fault) bool { return w.faults[f] && w.now < w.faultsEnd }

// drawFaults chooses the world's kinds of trouble.
func (w *world) drawFaults() {
	for f := range faultKinds {
		w.faults[f] = w.chance(1, 2) && !w.opts.Calm
	}
	if w.chance(1, 2) { // nobody operates this world
		for f := addRegion; f <= fenceRegion; f++ {
			w.faults[f] = false
		}
	}
	for _, f := range w.opts.faults {
		w.faults[f] = true
	}
	w.faultGap = w.between(second, 15*second)
}

// trouble causes one fault and plans the next.
func (w *world) trouble() {
	if w.now >= w.faultsEnd {
		return
	}
	if f := fault(w.rand.IntN(int(faultKinds))); w.faults[f] {
		w.faulted++
		w.caused[f]++
		w.cause(f)
	}
	w.after(w.exponential(w.faultGap/int64(faultKinds)*4), w.trouble)
}

func (w *world) cause(f fault) {
	region := w.rand.IntN(len(w.stores))
	n := w.nodeOf(region)
	note := func(what string) { w.note(what, region, int64(f), 0, 0, 0) }
	switch f {
	case leaderDies:
		if w.leader != nil {
			w.leader.stop()
			w.electSoon(w.between(50*milli, 8*second))
		}
	case leaderLingers:
		w.linger()
	case noCoordinators:
		note("all coordinators stop")
		for len(w.coords) > 0 {
			w.coords[0].stop()
		}
		w.electSoon(w.between(second, 120*second))
	case restart:
		w.replace(n, w.between(100*milli, 10*second))
	case flush:
		note("store flushed")
		w.stores[region].flush()
	case flushAndRestart:
		note("store flushed, daemon restarts")
		w.stores[region].flush()
		w.replace(n, w.between(100*milli, 5*second))
	case rollBack:
		note("store rolled back")
		w.stores[region].rollBack()
	case secondDaemon:
		w.doubleUp(n)
	case pauseDaemon:
		if n != nil {
			note("daemon paused")
			n.pauseTo = w.now + w.between(second, 60*second)
			w.after(n.pauseTo-w.now, w.suspectAll)
		}
	case pauseCoordinator:
		if c := w.leader; c != nil {
			w.note("leader paused", c.name, 0, 0, 0, 0)
			c.pauseTo = w.now + w.between(100*milli, 20*second)
			if w.chance(1, 2) {
				w.after(w.between(0, 5*second), w.linger)
			}
		}
	case cutOneWay, cutBothWays:
		up := f == cutBothWays || w.chance(1, 2)
		down := f == cutBothWays || !up
		w.note("cut", region, int64(b2i(up)), int64(b2i(down)), 0, 0)
		w.cutUp[region], w.cutDown[region] = up, down
		w.after(w.between(100*milli, 60*second), func() { w.cutUp[region], w.cutDown[region] = false, false })
	case cutFromLeader:
		if c := w.leader; c != nil {
			note("cut from this leader")
			c.cutOff[region] = true
			w.after(w.between(second, 30*second), func() { c.cutOff[region] = false })
		}
	case addRegion, drainRegion, reweight, fenceRegion:
		w.operate(f, region)
	case stuckForAll:
		note("store commands get stuck")
		w.stuck[region] = w.now + w.between(100*milli, 30*second)
	}
}

// linger elects a new leader while the old one goes on, cut off from the log.
func (w *world) linger() {
	c := w.leader
	if c == nil {
		return
	}
	w.note("leader deposed", c.name, 0, 0, 0, 0)
	w.depose()
	w.after(w.between(second, 60*second), c.when(c.stop))
	w.electSoon(w.between(0, 4*second))
}

func (w *world) electSoon(d int64) {
	w.after(d, func() {
		if w.leader == nil {
			w.elect()
		}
	})
}

// replace kills a daemon and starts another in its place.
func (w *world) replace(n *node, after int64) {
	if n == nil {
		return
	}
	w.kill(n)
	withFile := w.chance(3, 4)
	w.after(after, func() {
		if w.nodeOf(n.region) == nil {
			w.startNode(n.region, withFile)
		}
	})
}

func (w *world) kill(n *node) {
	w.note("daemon dies", n.region, int64(n.name), 0, 0, 0)
	n.dead = true
	for i, other := range w.nodes {
		if other == n {
			w.nodes = append(w.nodes[:i:i], w.nodes[i+1:]...)
			return
		}
	}
}

// doubleUp starts a second daemon of a region on the same store; the first goes on
// for a while, with or without a way to the coordinators: often for longer than it
// takes to count as cut off.
func (w *world) doubleUp(n *node) {
	if n == nil {
		return
	}
	w.note("second daemon", n.region, int64(n.name), 0, 0, 0)
	n.cut = w.chance(1, 2)
	w.startNode(n.region, w.chance(3, 4))
	w.after(w.between(second, 60*second), func() {
		if n.dead {
			return
		}
		w.kill(n)
		if w.nodeOf(n.region) == nil {
			w.startNode(n.region, true)
		}
	})
}

// copyStores keeps an older copy of every store at hand.
func (w *world) copyStores() {
	for _, s := range w.stores {
		if w.chance(1, 4) {
			s.copyAway()
		}
	}
	w.after(5*second, w.copyStores)
}

// heal ends all trouble.
func (w *world) heal() {
	for i := range w.stores {
		w.cutUp[i], w.cutDown[i], w.stuck[i] = false, false, 0
		for n := w.oldest(i); n != nil; n = w.oldest(i) {
			w.kill(n)
		}
		if i >= len(w.ledger.Config.Regions) || w.ledger.Config.Regions[i].Fenced {
			continue
		}
		w.buried[i] = false // if it was, nobody heard the operator
		if w.nodeOf(i) == nil {
			w.startNode(i, true)
		}
	}
	for _, n := range w.nodes {
		n.cut, n.pauseTo = false, min(n.pauseTo, w.now)
	}
	for _, c := range w.coords {
		clear(c.cutOff)
		c.pauseTo = min(c.pauseTo, w.now)
	}
	for len(w.coords) > 0 && w.coords[0] != w.leader {
		w.coords[0].stop()
	}
	for len(w.coords) > 1 {
		w.coords[1].stop()
	}
	if w.leader == nil {
		w.elect()
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
