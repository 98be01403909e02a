//go:build !race

package check

const (
	statesEach = 25_000
	statesDeep = 77_000
	statesDue  = 2_000_000
	searchFor  = 300_000 // for what is broken on purpose
)
