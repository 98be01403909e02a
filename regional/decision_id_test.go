package regional

import (
	"strconv"
	"strings"
	"testing"
)

// TestDecisionIDsCarryNoIncarnation: by an incarnation a stranger could report in a daemon's place.
func TestDecisionIDsCarryNoIncarnation(t *testing.T) {
	d, _ := startLive(t, testConfig(newLeader(t, failRules).address()))
	if number, id := d.service.ids.next(); strings.Contains(id, strconv.FormatUint(d.reporter.incarnation, 36)) {
		t.Errorf("decision %d is named %s", number, id)
	}
}
