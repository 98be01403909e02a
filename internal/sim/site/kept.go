package site

import (
	"aliquot/budget"
	"aliquot/internal/recall"
	"aliquot/internal/sim/shell"
)

// Kept is what a daemon has left that stopped in order.
type Kept struct {
	Place   uint64 // the token under which it asked for its place
	Session budget.SessionID
	id      budget.DaemonID
	records *recall.Snapshot
	alone   budget.Instant // Node.aloneSince
	// contents are those of the store, and the rest is what the daemon enforced.
	contents  string
	cfg       uint64
	rules     budget.RulesState
	clock     shell.Clock
	sameClock bool
}

func (k *Kept) place() uint64 {
	if k == nil {
		return 0
	}
	return k.Place
}

// Stop stops a daemon in order, and often empties its store at the same time. It returns what the daemon
// has left; nil if another daemon may have spent for the region.
func (w *Regions) Stop(n *Node) *Kept {
	flushed := w.Chance(2, 3)
	var kept *Kept
	records := n.recalled.Snapshot(n.Now())
	open := n.Machine.Session()
	if records != nil && open != (budget.SessionID{}) && !n.beside && !n.left && (n.roster == nil || !n.roster.Unread()) && !n.last.Waits() && n.epoch != "" {
		w.places++
		kept = &Kept{
			Place: w.places, Session: open, id: n.ID(), records: records, alone: n.aloneSince, contents: n.epoch, cfg: n.Machine.Config().Version, rules: n.Machine.Rules(),
			clock: n.clock, sameClock: w.Chance(1, 2),
		}
	}
	if kept == nil || !flushed {
		w.Kill(n)
	} else {
		w.end(n) // with its debts, since the records that they are of are lost
	}
	if flushed {
		w.Stores[n.Region].Flush()
	}
	return kept
}

// Return starts the daemon again that has left something.
func (w *Regions) Return(region int, kept *Kept) { w.start(region, true, kept.id, kept) }

// Left returns what the daemon's last run left, if it is not decided whether that holds.
func (n *Node) Left() *Kept { return n.kept }

func (n *Node) returnTo(kept *Kept) {
	if kept != nil {
		n.kept, n.last = kept, recall.NewReturn(kept.records, kept.contents, kept.sameClock, n.Now())
	}
}

// holdsBack reports whether the daemon must not spend yet.
func (n *Node) holdsBack() bool {
	if n.last.Waits() && n.Machine.Phase(n.Now()) != budget.Limbo {
		n.last.Opened()
	}
	return n.last.HoldsBack(n.epoch)
}

// comeBack decides by the answer to a Hello whether what the last run has left still holds.
func (n *Node) comeBack(ev budget.RegionEvent, placeKept bool) {
	k := n.kept
	if k == nil {
		return
	}
	switch e := ev.(type) {
	case budget.HelloAnswered:
		if placeKept && k.cfg == e.Config.Version && k.rules == n.Machine.Rules() {
			n.resume(k)
		} else {
			n.last.Forgo()
		}
	case budget.CallFailed:
		if !e.Busy || n.named == "" {
			return
		}
		n.last.Forgo()
	default:
		return
	}
	n.kept = nil
}

// resume continues with what the last run has left, which holds.
func (n *Node) resume(k *Kept) {
	before := n.recalled
	if n.last.Waits() && k.alone != 0 {
		n.aloneSince = max(n.aloneSince, k.alone+k.records.Shift(n.Now(), k.sameClock))
	}
	n.left = false // the other daemon that a coordinator has heard of was this one's last run
	if n.recalled = n.last.Resume(before, n.named, n.Now()); n.recalled != before {
		n.w.Note("remembers its last run", n.Region, int64(n.Name), int64(n.recalled.Len()), 0, 0)
		return
	}
	if n.named != "" && n.epoch != n.named {
		n.recalled.Emptied(n.Now()) // the contents were lost again since that Hello
	}
}

// spentBeside forgets what the last run has left of the store's contents, because this one has spent of them.
func (n *Node) spentBeside() {
	if n.kept != nil && n.kept.contents == n.epoch && n.recalled.Len() > 0 {
		n.kept = nil
		n.last.Forgo()
	}
}
