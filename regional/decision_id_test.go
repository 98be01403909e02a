package regional

import (
	"strconv"
	"strings"
	"testing"
)

// TestDecisionIDsCarryNoIncarnation: by an incarnation a stranger could report in a daemon's place.
func TestDecisionIDsCarryNoIncarnation(t *testing.T) {
	d, _ := startLive(t, testConfig(newLeader(t, failRules+"blacklist: [bad]\n").address()))
	if id := check(t, d, "bad").DecisionID; id == "" || strings.Contains(id, strconv.FormatUint(d.incarnation, 36)) {
		t.Errorf("a denial is named %s", id)
	}
}
