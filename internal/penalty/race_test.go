//go:build race

package penalty

// The race detector slows one goroutine that touches memory all the time down twentyfold.
const flood = 2_000_000
