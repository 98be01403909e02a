//go:build !race

package check

const (
	statesEach = 165_000
	statesDue  = 5_000_000
)
