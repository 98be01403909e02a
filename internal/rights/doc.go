// Package rights words what package budget allows a region in the terms of its store,
// package limit: local buckets, deadlines by the store's clock, what an emergency
// limit may admit. The daemon and the simulator share it, so that what is proven is
// what ships. It is pure: times are arguments.
package rights
