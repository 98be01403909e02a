package check

import (
	"aliquot/budget"
	"aliquot/internal/sim/check/form"
	"aliquot/internal/sim/check/store"
	"aliquot/limit"
)

// site is one region: its store, and the daemons that use it.
type site struct {
	region int
	store  store.Store

	nodes   []*node
	known   stateFile
	latest  budget.SessionID // that a daemon of the region opened
	cutUp   bool
	cutDown bool
	stuck   []storeCall

	form *form.Form // canonical; nil: to be computed
}

// storeCall is a command that was delayed on its way to the store.
type storeCall struct {
	name    uint64 // of the daemon
	epoch   string // of the contents it is for
	changes []store.Change
	heard   bool
	// take is not nil for a take of everything there is.
	take *limit.View
	// lend is not nil for a call that borrows or returns a chunk.
	lend     *lendCall
	deadline int64
	age      int // quanta
	gaveUp   bool
}

// made reports whether the call has reached the store. Only its reply is then missing, and it does
// not come.
func (c *storeCall) made() bool { return c.epoch == "" }

func (s *site) clone() *site {
	c := *s
	c.nodes = make([]*node, len(s.nodes))
	for i, n := range s.nodes {
		c.nodes[i] = n.clone()
	}
	c.stuck = append([]storeCall(nil), s.stuck...)
	c.form = nil
	return &c
}
