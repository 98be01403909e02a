// Package sim runs the two state machines of package budget and the store code of package limit in
// a simulated world. It has drifting clocks, and a network that loses, repeats and reorders
// messages. Leaders come, go and linger. Daemons die, pause, and come back twice. Stores are
// flushed, rolled back, out of reach, and set to another time. An operator adds, drains, reweights
// and fences regions, and lowers, raises, replaces and deletes limits. Clients spend all they can
// everywhere, some of them under two limits at once.
//
// An oracle accompanies the world: one exact bucket for the whole world and each key (of one burst
// for a strict limit, of one burst a region for an elastic one). Invariant I1 is checked after
// every event that matters.
//
// A run is a function of its seed. Each world has its own generators and one queue of events, and
// reads no wall clock. Worlds may run at the same time with the same result. A seed that fails can
// be replayed, and is shortened to the few faults that it needs; see Violation.
//
// allowances.go has all that the oracle knows and allows.
//
// Some cases are kept out of every world, because nothing fences them:
//   - a daemon that is cut off while another one of its region is told other floors;
//   - a daemon that outlives both a session that another daemon of its region opened after its own
//     last one, and the contents of the store, flushed or rolled back, that would have told it so.
//     It is replaced when it examines the new contents, even if it would have done no harm;
//   - two daemons of a region where a rule is deleted: one of them may continue to use it after the
//     other has given its key up;
//   - a daemon that reaches neither its store nor a coordinator, or has not found out yet that its
//     store is back, and does not know of a new daemon that gets its place. It is replaced when the
//     new one may spend, and the oracle allows what it owes the store, as if it had died;
//   - a command that is delayed for longer than its deadline while its store's clock is set back,
//     or was set back since the daemon last read it: the deadline is by that clock.
package sim
