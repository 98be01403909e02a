// Package sim runs the two machines of package budget and the store code of package
// limit in a simulated world: drifting clocks, a network that loses, repeats and
// reorders, leaders that come and go and linger, daemons that die, pause and come
// back twice, stores that are flushed, rolled back, out of reach, and set to another
// time, an operator who adds, drains, reweights and fences regions and who lowers,
// raises, replaces and deletes limits, and clients that spend all they can everywhere,
// some of them under two limits at once. Beside it stands an oracle, one exact bucket
// for the whole world and each key (of one burst for a strict limit, of one a region
// for an elastic one), and a check of invariant I1 after every event that matters.
//
// A run is a function of its seed: each world has its generators and one queue of
// events, and sees no wall clock. Worlds may be lived through at the same time; what
// comes out is the same. A seed that fails replays, and is shortened to the little
// trouble that it takes; see Violation.
//
// What the oracle knows, and what it lets pass, is all in allowances.go.
//
// Kept out of every world, because nothing fences them: a daemon that is cut off while
// another one of its region is told other floors; one that outlives both a session that
// another of its region opened after its own last and the contents of the store, flushed
// or rolled back, that would have told it so (it is replaced when it looks at the new
// ones, which also happens to one that would have done no harm); two daemons of a region where a rule is
// deleted (one of them may go on by it, after the other has given its key up); a daemon that reaches
// neither its store nor a coordinator, and does not know of a new daemon that gets its place (it is
// replaced when the new one may spend, and what it owes the store is let pass, as if it died); and a command that is
// stuck for longer than its deadline while its store's clock is set back, or was since the
// daemon last read it, since the deadline is by that clock.
package sim
