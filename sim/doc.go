// Package sim runs the two machines of package budget and the store code of package
// limit in a simulated world: drifting clocks, a network that loses, repeats and
// reorders, leaders that come and go and linger, daemons that die, pause and come
// back twice, stores that are flushed and rolled back, and clients that spend all
// they can everywhere. Beside it stands an oracle, one exact bucket for the whole
// world and each key, and a check of invariant I1 after every event.
//
// A run is a function of its seed: one generator, one queue of events, no
// goroutines, no wall clock. A seed that fails replays.
package sim
