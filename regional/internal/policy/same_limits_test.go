package policy

import (
	"strings"
	"testing"
	"time"
)

// TestSameLimits: a change of other rules leaves a rule's limits as they were. A change of its own limit, of an override,
// or the end of one does not, and neither does another number, which is that of other keys.
func TestSameLimits(t *testing.T) {
	const text = "rules:\n  - {id: r0, key: [api_key], params: {capacity: 10, refill_rate: 1}, override: {vip: {capacity: 20, until: 2029-01-01T00:00:00Z}}}\n"
	end := time.Date(2029, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	under := func(yaml string, number uint32, unixMS int64) *Policy {
		p, _, err := (&Policy{}).withRules(RuleText{Version: 1, YAML: yaml, Numbers: map[string]uint32{"r0": number, "r1": 9}})
		if err != nil {
			t.Fatal(err)
		}
		p.turnsAt(unixMS)
		return p
	}
	before := under(text, 1, end-2)
	for _, now := range []struct {
		what   string
		policy *Policy
		same   bool
	}{
		{"another rule", under(text+"  - {id: r1, params: {capacity: 1, refill_rate: 1}}\n", 1, end-1), true},
		{"its limit", under(strings.Replace(text, "capacity: 10", "capacity: 11", 1), 1, end-1), false},
		{"an override", under(strings.Replace(text, "capacity: 20", "capacity: 21", 1), 1, end-1), false},
		{"its override has ended", under(text, 1, end), false},
		{"another number", under(text, 2, end-1), false},
	} {
		same := now.policy.SameLimits(before)
		if got := same(1) || same(2); got != now.same {
			t.Errorf("%s: same limits %t, want %t", now.what, got, now.same)
		}
	}
	if none := new(Policy); before.SameLimits(none)(1) || none.SameLimits(before)(1) {
		t.Error("no rules have the limits of any")
	}
}
