package main

import (
	"slices"

	"aliquot/internal/e2e/faults"
	"aliquot/internal/e2e/limits"
	"aliquot/internal/e2e/promise"
)

// scenarios are all of them, in the order in which they are told.
func scenarios() []promise.Scenario { return slices.Concat(limits.Scenarios(), faults.Scenarios()) }
