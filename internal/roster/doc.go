// Package roster keeps two daemons of one region from spending the region's right twice: one by
// the store, and another one, whose way to the store is lost, by its emergency limit.
//
// The daemons of a region share a list in their store. Each writes itself into it, is given a
// number, and comes back every second to say up to which number it has read the list. A
// daemon that is new to the list spends by the store when every other one in it has read as
// far as its number, or when a coordinator vouches for that. And a daemon without a store
// admits nothing by its emergency limit once it has read of another one.
//
// So whoever could be admitting by an emergency limit has not read of a new daemon, and the new
// daemon sees that in the list. The one daemon of a region finds nobody else there, and waits
// for nothing.
//
// The daemon and the simulator share the package. It is pure: times are arguments.
package roster
