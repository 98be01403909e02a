package charge_test

import (
	"testing"
	"time"

	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/rules"
)

// TestSlotsKeepTheirNames: a slot has one name, however often its request is sent, and in a copy of the request too.
func TestSlotsKeepTheirNames(t *testing.T) {
	l := limit.Limit{Algorithm: limit.Concurrency, Capacity: 4 * limit.Token, Window: time.Minute}
	names := charge.NewSlotNames(7)
	g := &charge.Transaction{Charges: []charge.Charge{{Planned: charge.Planned{Rule: &rules.Rule{}, Limit: l, Enforcement: rules.Independent, Cost: limit.Token}}}}
	groups := []*charge.Transaction{g}
	names.Name(groups)
	name := g.Charges[0].Slot
	head := &charge.Header{Frames: []charge.Framed{{Tail: l.Tail()}}}
	for range 2 {
		call := new(charge.CallBuffer).CallOf(head, groups, names)
		if got := call[0].Limits[0].View.Slot; name == 0 || got != name {
			t.Errorf("sent as %d, named %d", got, name)
		}
	}
	if names.Name(groups); g.Charges[0].Slot != name || g.FreshCopy().Charges[0].Slot != name {
		t.Errorf("renamed from %d: %d, %d in a copy", name, g.Charges[0].Slot, g.FreshCopy().Charges[0].Slot)
	}
}
