// Package shell holds what the simulator and the checker have in common around the
// machines of package budget: clocks that run at rates of their own, a daemon's map
// of its store's clock, and the words in which it tells its store a right. Like the
// machines it is pure: times are arguments.
package shell
