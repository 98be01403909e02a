package regional

import (
	"sync/atomic"

	"aliquot/limit"
)

// slotNames gives names to the slots of concurrency limits: numbers above 0 and at most
// limit.MaxExact, each given once. A daemon counts up from a random number, so that the names of
// two daemons of one region, or of a daemon and its successor, do not collide. With a thousand
// million names used by each, the chance of a collision is below one in a million. Safe for
// concurrent use.
type slotNames struct{ last atomic.Uint64 }

func newSlotNames(incarnation uint64) *slotNames {
	var n slotNames
	n.last.Store(incarnation)
	return &n
}

func (n *slotNames) next() uint64 { return n.last.Add(1)%limit.MaxExact + 1 }
