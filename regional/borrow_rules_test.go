package regional

import (
	"errors"
	"strings"
	"testing"

	"aliquot/budget"
	"aliquot/limit"
)

// TestACheckThatWaitsGoesByNoEarlierRule: its limit is lowered while it waits, and then its share comes, which the earlier
// limit would let it have. A change of the rules that leaves the limit as it is changes nothing for the check.
func TestACheckThatWaitsGoesByNoEarlierRule(t *testing.T) {
	before := strings.Replace(homed("8s"), "capacity: 4", "capacity: 4, refill_rate: 1", 1)
	before = strings.Replace(before, ", refill_rate: 0.001", "", 1)
	for name, after := range map[string]string{
		"lowered": strings.Replace(before, "refill_rate: 1", "refill_rate: 0.001", 1),
		"the key": strings.Replace(before, "id: r0,", "id: r0, key: [user],", 1),
		"nothing": before + "\n# another version",
	} {
		t.Run(name, func(t *testing.T) {
			inNetwork(t, func(t *testing.T) {
				l := newLeader(t, before)
				d := used(t, l)
				answer := asks(t.Context(), d)
				eventually(t, "the check waits", func() bool { return waiting(d) == 1 })
				key := l.asked()
				takes(t, d, l, 2, after)
				l.grant(key, budget.Unit, 2*int64(limit.Token))
				if err := <-answer; name == "nothing" && err != nil || name != "nothing" && !errors.Is(err, errDenied) {
					t.Error(err)
				}
			})
		})
	}
}
