// Package shell holds what the simulator and the checker have in common around the
// machines of package budget: clocks that run at rates of their own, and a daemon's
// map of its store's clock. Like the machines it is pure: times are arguments.
package shell
