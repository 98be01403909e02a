package prefetch

import "aliquot/budget"

// Validity is the set of conditions on which a daemon's chunks and memories depend. Whenever it
// changes, all of them end (Key.End); if the contents changed, they are dropped (Key.Drop). A
// change of one key's share ends only that key's. Time is not part of it: a chunk ends with its
// lease without further action.
type Validity struct {
	// Session is zero while no session is open.
	Session budget.SessionID
	// Contents identifies the store's contents, as in budget.StoreEpoch.
	Contents string
	// Config and Rules are the versions in force.
	Config, Rules uint64
}

// Ends reports whether what was borrowed under s ends under now, and whether it becomes void.
func (s Validity) Ends(now Validity) (ends, drops bool) {
	return s != now, s.Contents != now.Contents
}
