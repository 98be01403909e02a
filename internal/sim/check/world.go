package check

import (
	"aliquot/budget"
	"aliquot/internal/sim/check/form"
	"aliquot/internal/sim/check/store"
	"aliquot/limit"
)

// maxRegions bounds the worlds. With more regions nothing new happens, only more often.
const maxRegions = 3

// world is one complete state. A world and its forks share its parts until one of them changes; see
// site and seat. It is not safe for concurrent use, but forks of one world may be used at the same
// time.
type world struct {
	sc  *Scenario
	now int64 // true time, nanoseconds
	// began is when the search began.
	began int64
	// ideal is what an ideal bucket for the whole world holds, in micro-tokens.
	ideal int64

	want   int8 // the division that is asked for; see divisions
	faults int8 // left
	turns  int8 // changes of want left
	lonely int8 // quanta without a fault and without a change of want, up to convergeIn

	ledger  *budget.Ledger
	logForm *form.Form // the ledger's
	leads   *seat      // the seat with access to the log; nil: none
	old     *seat      // the seat that was deposed without its knowledge; nil: none
	sites   [maxRegions]*site
	names   uint64 // the latest name that was given to a daemon
	up      []upMessage
	down    []downMessage

	// mine says which parts belong to this world alone, so that it may change them.
	mine      [maxRegions]bool
	mineLeads bool
	mineOld   bool
	mineLog   bool

	told   func(string) // called with a description of each event; nil: none
	broken string       // the promise that is broken; empty: none
}

// upMessage is a Hello or a Report on its way.
type upMessage struct {
	from   caller
	to     uint64 // epoch of the seat
	held   bool   // not before time passes
	hello  *budget.Hello
	report *budget.Report
}

// downMessage is an answer on its way.
type downMessage struct {
	to   caller
	from uint64 // epoch of the seat; 0: the call failed on the way
	held bool
	ev   budget.RegionEvent
}

// caller is one call of one daemon.
type caller struct {
	region int
	name   uint64
	call   uint32
}

// stateFile is what a region's daemon wrote down at its latest Welcome.
type stateFile struct {
	cfg          budget.Config
	initialEpoch string
	epoch        uint64
}

// key is the one key there is.
var key = budget.KeyID{Rule: 1}

// newWorld starts everything: stores that are full, a daemon in each region, and a
// leader.
func newWorld(sc *Scenario) *world {
	w := &world{sc: sc, now: int64(sc.Quantum), want: sc.none(), mineLog: true}
	names := []string{"a", "b", "c"}[:sc.Regions]
	w.ledger = &budget.Ledger{Config: budget.NewConfig(names, sc.Lease, sc.RhoPPM)}
	w.ideal = sc.most()
	for i := range sc.Regions {
		w.sites[i] = &site{region: i, store: store.New(sc.storeClock(i))}
		w.mine[i] = true
	}
	w.elect()
	for i := range sc.Regions {
		w.start(i, false)
	}
	return w
}

// Fork is a world that goes its own way.
func (w *world) Fork() *world {
	c := *w
	c.mine, c.mineLeads, c.mineOld, c.mineLog = [maxRegions]bool{}, false, false, false
	return &c
}

// site is region i, to be changed.
func (w *world) site(i int) *site {
	if !w.mine[i] {
		w.sites[i], w.mine[i] = w.sites[i].clone(), true
	}
	w.sites[i].form = nil
	return w.sites[i]
}

// seat is the seat of an epoch, to be changed; nil if it is empty.
func (w *world) seat(epoch uint64) *seat {
	switch {
	case w.leads != nil && w.leads.epoch == epoch:
		if !w.mineLeads {
			w.leads, w.mineLeads = w.leads.clone(), true
		}
		w.leads.form = nil
		return w.leads
	case w.old != nil && w.old.epoch == epoch:
		if !w.mineOld {
			w.old, w.mineOld = w.old.clone(), true
		}
		w.old.form = nil
		return w.old
	}
	return nil
}

// log is the ledger, to be changed.
func (w *world) log() *budget.Ledger {
	if !w.mineLog {
		w.ledger, w.mineLog = w.ledger.Clone(), true
	}
	w.logForm = nil
	return w.ledger
}

// send puts an answer on its way.
func (w *world) send(m downMessage) {
	w.down = append(w.down[:len(w.down):len(w.down)], m)
}

// call puts a Hello or Report on its way.
func (w *world) call(m upMessage) {
	w.up = append(w.up[:len(w.up):len(w.up)], m)
}

// without is a list of messages less one.
func without[M any](list []M, i int) []M {
	out := make([]M, 0, len(list))
	return append(append(out, list[:i]...), list[i+1:]...)
}

// node is a daemon, to be changed; nil if it is dead.
func (w *world) node(region int, name uint64) *node {
	for i, n := range w.sites[region].nodes {
		if n.name == name {
			return w.site(region).nodes[i]
		}
	}
	return nil
}

// admit counts what a store admitted.
func (w *world) admit(amount limit.Tokens) {
	if w.sc.Limit.Algorithm.Counts() {
		return // see checkRights
	}
	w.ideal -= int64(amount)
	if w.ideal < -w.sc.slack() {
		w.violate("the bound: %d micro-tokens more were admitted than the ideal bucket held", -w.ideal)
	}
}
