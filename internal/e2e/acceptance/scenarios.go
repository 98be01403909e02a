package main

import (
	"slices"

	"aliquot/internal/e2e/faults"
	"aliquot/internal/e2e/limits"
	"aliquot/internal/e2e/promise"
)

// scenarios returns all scenarios, in the order in which they run.
func scenarios() []promise.Scenario { return slices.Concat(limits.Scenarios(), faults.Scenarios()) }
