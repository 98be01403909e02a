// Package fleet is many keys in many regions, for measuring what a leader costs at
// size. Its regions follow the protocol as daemons do, on a network without delay,
// but have no machines and no stores of their own: what they hold of a key is a
// line in a table, so that nearly all the time of a run is the leader's.
package fleet
