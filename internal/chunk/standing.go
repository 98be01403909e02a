package chunk

import "aliquot/budget"

// Standing is what a daemon's chunks and memories stand on. Whenever it is another one,
// all of them end (Key.End), and they are dropped (Key.Drop) if the contents are others.
// A change of one key's share ends that key's only. That time passes does not show in
// it: a chunk ends with its lease by itself.
type Standing struct {
	// Session is zero while none is open.
	Session budget.SessionID
	// Contents names the store's, as in budget.StoreEpoch.
	Contents string
	// Config and Rules are the versions in force.
	Config, Rules uint64
}

// Ends reports whether what was taken under s ends under now, and whether that makes it
// void.
func (s Standing) Ends(now Standing) (ends, drops bool) {
	return s != now, s.Contents != now.Contents
}
