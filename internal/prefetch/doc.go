// Package prefetch is a daemon's side of the tokens that it borrows from its store. A chunk is debited
// from the record before any of it is spent, so a check that is admitted from a chunk is covered
// like any other. Package limit has the record's side. A Key also remembers the store's latest
// answer, and denies what the store would deny.
//
// The package is pure: times are arguments. The daemon and the simulator share it, so the code that
// is proven is the code that ships.
package prefetch
