//go:build !race

package compare

// figureRuns is how many seeds a figure is the mean of, convergeRuns how many the demand
// step is measured over.
const figureRuns, convergeRuns = 5, stepRuns
