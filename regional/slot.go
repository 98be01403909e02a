package regional

import (
	"sync/atomic"

	"aliquot/limit"
)

// slotNames names the slots of limits of concurrency: above 0, at most limit.MaxExact,
// and never twice. A daemon counts from a random number, so that two of one region, or
// one and its successor, do not meet: with a thousand million names used by each, the
// chance is below one in a million. Safe for concurrent use.
type slotNames struct{ last atomic.Uint64 }

func newSlotNames(incarnation uint64) *slotNames {
	var n slotNames
	n.last.Store(incarnation)
	return &n
}

func (n *slotNames) next() uint64 { return n.last.Add(1)%limit.MaxExact + 1 }
