// Package sim runs the two machines of package budget and the store code of package
// limit in a simulated world: drifting clocks, a network that loses, repeats and
// reorders, leaders that come and go and linger, daemons that die, pause and come
// back twice, stores that are flushed and rolled back, an operator who adds, drains,
// reweights and fences regions, and clients that spend all they can everywhere.
// Beside it stands an oracle, one exact bucket for the whole world and each key (of
// one burst for a strict limit, of one a region for an elastic one), and a check of
// invariant I1 after every event.
//
// A run is a function of its seed: one generator, one queue of events, no
// goroutines, no wall clock. A seed that fails replays.
//
// Two things are kept out of every world, because nothing fences them: a daemon that
// is cut off while another one of its region is told other floors, and one that
// outlives, on a store that was flushed, a session of another.
package sim
