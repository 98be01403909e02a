package main

import (
	"slices"

	"aliquot/internal/e2e"
	"aliquot/internal/e2e/faults"
	"aliquot/internal/e2e/limits"
)

// scenarios are all of them, in the order in which they are told.
func scenarios() []e2e.Scenario { return slices.Concat(limits.Scenarios(), faults.Scenarios()) }
