// Package chunk is a daemon's side of the tokens that it takes from its store in
// advance. A chunk is debited from the record before any of it is spent, so that a
// check that is admitted from one is covered like any other; package limit has the
// record's side. A Key also remembers what the store last said, and denies what the
// store would deny.
//
// It is pure: times are arguments. The daemon and the simulator share it, so that what
// is proven is what ships.
package chunk
