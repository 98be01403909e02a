package keywatch

import (
	"testing"

	"aliquot/budget"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/policy"
	"aliquot/rules"
)

// The table has so many keys and no more: the oldest go.
func TestValuesAreCapped(t *testing.T) {
	k := newKeyValues(2)
	of := &rules.Rule{Key: []string{"api_key"}}
	for n := range uint32(5) {
		k.remember(budget.KeyID{Rule: n}, of, &charge.Request{})
	}
	if len(k.values) != 2 || k.of(budget.KeyID{Rule: 4}) == "" || k.of(budget.KeyID{Rule: 3 | policy.IndependentBit}) == "" || k.of(budget.KeyID{Rule: 2}) != "" {
		t.Errorf("%v", k.values)
	}
	if newKeyValues(0).of(budget.KeyID{}) != "" {
		t.Error("none remembers something")
	}
}
