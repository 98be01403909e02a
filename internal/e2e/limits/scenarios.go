// Package limits has the scenarios of what a limit admits, with and without changes of its rules.
package limits

import (
	"aliquot/internal/e2e/promise"
)

// Scenarios returns the scenarios of limits, in the order in which they run: without faults, and while rules change.
func Scenarios() []promise.Scenario {
	return []promise.Scenario{
		{Name: "rotate", Run: rotate},
		{Name: "stay", Run: stay},
		{Name: "agrees with the simulator", Run: agrees, Long: true},
		{Name: "a Zipf crowd agrees with the simulator", Run: zipf, Long: true},
		{Name: "enforcements compared", Run: enforcements, Long: true},
		{Name: "elastic", Run: elastic},
		{Name: "many clients", Run: manyPaced, Busy: true},
		{Name: "many clients at their bound", Run: manyAtTheirBound, Busy: true},
		{Name: "windows, the leader killed", Run: Windows},
		{Name: "budgets watched", Run: budgetsWatched},
		{Name: "rules changed", Run: rulesChanged},
		{Name: "a rule becomes another one", Run: kindChanged},
		{Name: "a rule slowed", Run: ruleSlowed},
		{Name: "blocks hold through every change", Run: blocksHold},
		{Name: "many clients, overload", Run: overload, Busy: true},
	}
}
