package leasewire

import (
	"testing"
	"time"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// TestActionsOfALimitThatCounts: what no leader sends is refused whole, and a limit out
// of range is one that is not known.
func TestActionsOfALimitThatCounts(t *testing.T) {
	action := func(from, tail int64) *aliquotv1.Action {
		return &aliquotv1.Action{
			Key: &aliquotv1.KeyId{Rule: 1, Hash: make([]byte, 16)}, From: from,
			Limit: &aliquotv1.KeyLimit{CapacityMicro: 40e6, RateMicro: 1e6, TailMicros: tail},
		}
	}
	got, err := actionsFromWire([]*aliquotv1.Action{action(7, 120e6)})
	if err != nil || got[0].From != 7 || got[0].Limit.Tail != 2*time.Minute {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := actionsFromWire([]*aliquotv1.Action{action(-1, 0)}); err == nil {
		t.Error("a window before the first was accepted")
	}
	for _, tail := range []int64{-1, budget.MaxTail.Microseconds() + 1, 1 << 62} {
		if got, err := actionsFromWire([]*aliquotv1.Action{action(0, tail)}); err != nil || got[0].Limit != (budget.KeyLimit{}) {
			t.Errorf("tail %d: %+v, %v", tail, got, err)
		}
	}
}
