//go:build race

package sim

// The race detector slows the worlds down tenfold, and there is nothing concurrent
// in them: a taste is enough.
const faultHours = 1.5
