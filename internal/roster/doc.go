// Package roster keeps two daemons of one region from spending the region's right twice: one
// through the store, and another by its emergency limit after it lost its way to the store.
//
// The daemons of a region share a list in their store. Each enters itself, gets a number, and
// returns every second to report up to which number it has read the list. A daemon that is new to
// the list spends through the store once every other daemon in it has read as far as its number, or
// once a coordinator vouches for it. A daemon without a store admits nothing by its emergency limit
// once it has read of another daemon.
//
// So a daemon that may be admitting by an emergency limit has not read of a new daemon, and the new
// daemon sees that in the list. The only daemon of a region finds no other in the list. If it is new
// there it waits a second for a coordinator's word, and admits nothing meanwhile: another one, for which
// a coordinator vouches, may not be in the list yet.
//
// The daemon and the simulator share the package. It is pure: times are arguments.
package roster
