//go:build race

package compare

// The race detector makes a run some ten times as long: one seed shows whether there are
// races.
const figureRuns, convergeRuns = 1, 20
