package site

import (
	"slices"

	"aliquot/budget"
	"aliquot/internal/roster"
	"aliquot/internal/sim/faults"
)

// silentFor is how long a daemon without an answer from a coordinator counts as out of their reach,
// as in the leader's state machine.
const silentFor = 3 * second

// listed reports whether the daemons of this world's regions keep the list in their store. The only
// daemon of a region finds no other in it.
func (w *Regions) listed() bool {
	return w.Faults.Kinds[faults.SecondDaemon] || w.Faults.Kinds[faults.StoreCut]
}

// CutStore cuts one of a region's two daemons off its store, if a region has two.
func (w *Regions) CutStore(region int) bool {
	for i := range w.Stores {
		if w.Oldest(i) != nil {
			region = i
		}
	}
	var all []*Node
	for _, n := range w.Nodes {
		if n.Region == region {
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
func (n *Node) storeCut() bool { return n.w.Now() < n.storeCutTo }

// withoutStore reports whether the daemon decides without its store: it is cut off, or has not found out yet that it is
// not any more.
func (n *Node) withoutStore() bool { return n.storeCut() || n.breaker.wait != 0 }

// standing returns what the daemon reports of itself. unmarked: the store did not take the latest
// mark.
func (n *Node) standing(unmarked bool) budget.Standing {
	if n.roster == nil {
		return budget.Standing{}
	}
	now := n.Now()
	return budget.Standing{
		Daemon: n.roster.Self(), Storeless: unmarked || n.breaker.wait != 0, Alone: n.isAlone() && !n.left, Others: n.roster.Others(now),
	}
}

// isAlone reports whether the daemon may admit by its emergency limit, as far as it knows of other daemons.
func (n *Node) isAlone() bool {
	return n.roster == nil || n.roster.Alone(n.Now(), n.recalled.InSession(n.Now()))
}

// spends reports whether the daemon may spend by the store, and has the world know when that
// begins: by what the daemon hears, or by its waiting long enough.
func (n *Node) spends() bool {
	if n.holdsBack() {
		return false
	}
	if n.roster == nil {
		return true
	}
	may := n.roster.Spends(n.Now())
	if may && !n.spent {
		n.w.Note("may spend", n.Region, int64(n.Name), 0, 0, 0)
		n.w.joined(n)
	}
	n.spent = may
	return may
}

// readList reads the list of the region's daemons, and plans the next reading.
func (n *Node) readList() {
	if n.Dead {
		return
	}
	w, s := n.w, n.w.Stores[n.Region]
	if n.epoch == "" {
		w.Plan(20*milli, n.When(n.readList)) // the store has not answered yet
		n.updateRoster(func() {})
		return
	}
	w.Plan(int64(n.roster.NextRead(n.Now())), n.When(n.readList))
	if n.storeCut() || w.Stuck[n.Region] > w.Now() || !n.breaker.passes(w.Now()) {
		n.updateRoster(func() {})
		return
	}
	call, epoch := n.roster.Call(), n.epoch
	w.After(milli, func() {
		if s.epoch != epoch || n.buried {
			return
		}
		reply := s.list.Answer(call, s.Time())
		w.Plan(milli, n.When(func() {
			if n.epoch == epoch && !n.storeCut() {
				n.breaker.done(w.Now(), true) // the real daemon's probe finds that out
				n.updateRoster(func() { n.roster.Answered(reply, n.Now()) })
			}
		}))
	})
}

// updateRoster changes what the daemon knows of the others. That affects what it admits without the
// store: beside another daemon nothing is earned, nor kept from before.
func (n *Node) updateRoster(change func()) {
	if n.roster == nil {
		return
	}
	change()
	if n.roster.Certainty(n.Now()) == roster.Certain {
		alone := n.isAlone()
		if n.beside && alone {
			n.aloneSince = n.Now()
		}
		if n.beside = !alone; n.beside {
			n.recalled.Disown()
		}
	}
	n.spends()
}

// joined handles a daemon that may now spend through the store. It cannot know what another daemon
// owes that store; see doc.go. Nor does a leader learn of a daemon that only a deposed one hears.
func (w *Regions) joined(n *Node) {
	silent := silentFor - silentFor*int64(w.Config.RhoPPM)/1_000_000 // the leader's clock may be fast
	for _, other := range w.Nodes {
		heardAt := other.heardAt
		if other.heard < n.heard {
			heardAt = min(heardAt, w.EpochBegan)
		}
		switch {
		case other == n || other.Region != n.Region || other.roster == nil:
		case (w.Now()-heardAt >= silent || (other.Cut || !w.above.Coordinated() || other.heard < n.heard) && other.withoutStore()) && other.isAlone():
			w.above.Replace(other, 100*milli) // nothing can tell it of the new one
		default:
			w.above.ForgiveDebts(other)
		}
	}
}

// newRoster returns the roster of a daemon that starts with an id; 0: a new one. Its state file, if
// it has one, lists the other daemons of the region.
func (w *Regions) newRoster(n *Node, id budget.DaemonID, withFile bool) {
	if !w.listed() {
		return
	}
	if id == 0 {
		id = budget.DaemonID(n.Name)
	}
	var known []budget.DaemonID
	for _, other := range w.Nodes {
		if withFile && other != n && other.Region == n.Region && other.ID() != id {
			known = append(known, other.ID())
		}
	}
	slices.Sort(known)
	n.roster = roster.New(id, known, n.Now())
	n.readList()
}

// ID returns the daemon's id, 0 in a world without lists.
func (n *Node) ID() budget.DaemonID {
	if n.roster == nil {
		return 0
	}
	return n.roster.Self()
}
