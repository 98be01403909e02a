package explain

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
)

// decisionIDs makes the ids of denials: "<region>-<random number>-<counter>", the numbers in base 36.
// No two decisions of an installation have the same id, even after restarts. The random number is
// not the incarnation: strangers see these ids, and a stranger who knew the incarnation could report
// in this daemon's place. Safe for concurrent use.
type decisionIDs struct {
	prefix string
	last   atomic.Uint64
}

func newDecisionIDs(region string) *decisionIDs {
	return &decisionIDs{prefix: region + "-" + strconv.FormatUint(rand.Uint64(), 36) + "-"}
}

// next returns an id and the number that it ends with, from 1 on.
func (d *decisionIDs) next() (number uint64, id string) {
	number = d.last.Add(1)
	return number, d.prefix + strconv.FormatUint(number, 36)
}

// number returns the number of an id that this daemon made, and false for any other text.
func (d *decisionIDs) number(id string) (number uint64, ok bool) {
	digits, own := strings.CutPrefix(id, d.prefix)
	number, err := strconv.ParseUint(digits, 36, 64)
	return number, own && err == nil
}
