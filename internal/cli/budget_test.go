package cli

import (
	"strings"
	"testing"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// Slots are in use at a time; they have no rate by which more are admitted.
func TestBudgetOfSlots(t *testing.T) {
	for says, b := range map[string]*aliquotv1.Budget{
		"\nat most 10 are in use at a time everywhere: 0 above":                   {Limit: &aliquotv1.Limit{Capacity: 10}},
		"\nin any t seconds at most 30 + 4 x t are admitted everywhere: 20 above": {Limit: &aliquotv1.Limit{Capacity: 10}, WorstCaseExcess: 20, BoundRate: 4},
		"\nin any t seconds at most 0 + 0 x t are admitted everywhere: 0 above":   {Limit: &aliquotv1.Limit{}},
		"\nand perhaps more: not every region is known":                           {ResidualExcessUnknown: true},
	} {
		var out strings.Builder
		if printBudget(&out, b); !strings.Contains(out.String(), says) {
			t.Errorf("%q is not in %q", says, out.String())
		}
	}
}
