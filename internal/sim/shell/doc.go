// Package shell holds what the simulator and the checker share around the state machines of package
// budget: clocks that run at their own rates, and a daemon's map of its store's clock. It is pure:
// times are arguments.
package shell
