package sim

import (
	"slices"

	"aliquot/budget"
	"aliquot/internal/roster"
	"aliquot/internal/sim/faults"
	"aliquot/internal/sim/timeline"
)

// cutStream draws which worlds have stores that are lost for one daemon, and when. The worlds
// otherwise stay as they would be without it.
const cutStream = 0x637574

// silentFor is how long a daemon without an answer from a coordinator counts as out of their reach,
// as in the leader's state machine.
const silentFor = 3 * second

// listed reports whether the daemons of this world's regions keep the list in their store. The only
// daemon of a region finds no other in it.
func (w *world) listed() bool {
	return w.faults.Kinds[faults.SecondDaemon] || w.faults.Kinds[faults.StoreCut]
}

// cutStores cuts single daemons off their stores.
func (w *world) cutStores() {
	if w.faults.Over() {
		return
	}
	w.strike(faults.StoreCut)
	w.After(timeline.Exponential(w.cuts, 20*second), w.cutStores)
}

// cutStore cuts one of a region's two daemons off its store, if a region has two.
func (w *world) cutStore(region int) bool {
	for i := range w.stores {
		if w.oldest(i) != nil {
			region = i
		}
	}
	var all []*node
	for _, n := range w.nodes {
		if n.region == region {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return false
	}
	n := all[w.Rand.IntN(len(all))]
	n.storeCutTo = w.Now() + w.Between(second, 60*second)
	return true
}

// storeCut reports whether no command of this daemon reaches its store.
func (n *node) storeCut() bool { return n.w.Now() < n.storeCutTo }

// standing returns what the daemon reports of itself. unmarked: the store did not take the latest
// mark.
func (n *node) standing(unmarked bool) budget.Standing {
	if n.roster == nil {
		return budget.Standing{}
	}
	now := n.now()
	return budget.Standing{
		Daemon: n.roster.Self(), Storeless: unmarked || n.breaker.wait != 0, Alone: n.roster.Alone(now) && !n.left, Others: n.roster.Others(now),
	}
}

// spends reports whether the daemon may spend by the store, and has the world know when that
// begins: by what the daemon hears, or by its waiting long enough.
func (n *node) spends() bool {
	if n.roster == nil {
		return true
	}
	may := n.roster.Spends(n.now())
	if may && !n.spent {
		n.w.Note("may spend", n.region, int64(n.name), 0, 0, 0)
		n.w.joined(n)
	}
	n.spent = may
	return may
}

// readList reads the list of the region's daemons, and plans the next reading.
func (n *node) readList() {
	if n.dead {
		return
	}
	w, s := n.w, n.w.stores[n.region]
	if n.epoch == "" {
		w.After(20*milli, n.when(n.readList)) // the store has not answered yet
		return
	}
	w.After(int64(n.roster.NextRead(n.now())), n.when(n.readList))
	if n.epoch != n.listOf {
		n.listOf = n.epoch
		n.roster.Contents()
	}
	if n.storeCut() || w.stuck[n.region] > w.Now() || !n.breaker.passes(w.Now()) {
		return
	}
	call, epoch := n.roster.Call(), n.epoch
	w.After(milli, func() {
		if s.epoch != epoch || n.buried {
			return
		}
		reply := s.list.Answer(call, s.time())
		w.After(milli, n.when(func() {
			if n.epoch == epoch && !n.storeCut() {
				n.breaker.done(w.Now(), true) // the real daemon's probe finds that out
				n.updateRoster(func() { n.roster.Answered(reply, n.now()) })
			}
		}))
	})
}

// updateRoster changes what the daemon knows of the others. That affects what it admits without the
// store: beside another daemon nothing is earned, nor kept from before.
func (n *node) updateRoster(change func()) {
	if n.roster == nil {
		return
	}
	change()
	if !n.roster.Unread() {
		alone := n.roster.Alone(n.now())
		if n.beside && alone {
			n.aloneSince = n.now()
		}
		n.beside = !alone
	}
	n.spends()
}

// joined handles a daemon that may now spend through the store. It cannot know what another daemon
// owes that store; see doc.go.
func (w *world) joined(n *node) {
	silent := silentFor - silentFor*int64(w.cfg.RhoPPM)/1_000_000 // the leader's clock may be fast
	for _, other := range w.nodes {
		switch {
		case other == n || other.region != n.region || other.roster == nil:
		case w.Now()-other.heardAt >= silent && other.roster.Alone(other.now()):
			w.replace(other, 100*milli) // nothing can tell it of the new one
		default:
			other.forgiveDebts()
		}
	}
}

// newRoster returns the roster of a daemon that starts with an id; 0: a new one. Its state file, if
// it has one, lists the other daemons of the region.
func (w *world) newRoster(n *node, id budget.DaemonID, withFile bool) {
	if !w.listed() {
		return
	}
	if id == 0 {
		id = budget.DaemonID(n.name)
	}
	var known []budget.DaemonID
	for _, other := range w.nodes {
		if withFile && other != n && other.region == n.region && other.id() != id {
			known = append(known, other.id())
		}
	}
	slices.Sort(known)
	n.roster = roster.New(id, known, n.now())
	n.readList()
}

// id returns the daemon's id, 0 in a world without lists.
func (n *node) id() budget.DaemonID {
	if n.roster == nil {
		return 0
	}
	return n.roster.Self()
}
