// Package entitlement translates what package budget allows a region into the terms of its store,
// package limit: local buckets, deadlines by the store's clock, and what an emergency limit may
// admit. The daemon and the simulator share it, so the code that is proven is the code that ships.
// It is pure: times are arguments.
package entitlement
