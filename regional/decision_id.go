package regional

import (
	"strconv"
	"sync/atomic"
)

// decisionIDs names denials: "<region>-<incarnation>-<counter>", the numbers in base
// 36. No two decisions of an installation have the same name, restarts included.
// Safe for concurrent use.
type decisionIDs struct {
	prefix string
	last   atomic.Uint64
}

func newDecisionIDs(region string, incarnation uint64) *decisionIDs {
	return &decisionIDs{prefix: region + "-" + strconv.FormatUint(incarnation, 36) + "-"}
}

func (d *decisionIDs) next() string {
	return d.prefix + strconv.FormatUint(d.last.Add(1), 36)
}
