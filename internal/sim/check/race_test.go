//go:build race

package check

// The race detector slows the search down tenfold: a taste is enough.
const (
	statesEach = 2_000
	statesDeep = 2_000
	statesDue  = 50_000
	searchFor  = 3_000
)
