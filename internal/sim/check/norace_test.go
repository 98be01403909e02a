//go:build !race

package check

const (
	statesEach = 77_000
	statesDue  = 5_000_000
	searchFor  = 300_000 // for what is broken on purpose
)
