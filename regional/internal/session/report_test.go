package session

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"aliquot/budget"
)

// TestTheEndOfAnOverrideReplacesTheRules: the state machine forgets the limits of its keys before it
// gets the next answer, and the reports say how many overrides have ended.
func TestTheEndOfAnOverrideReplacesTheRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader := &lastHello{}
		s := newTestSession(t, leader)
		text := fmt.Sprintf("rules:\n  - id: r\n    algorithm: token_bucket\n"+
			"    params: {capacity: 60, refill_rate: 7}\n    override: {k: {capacity: 540, refill_rate: 67, until: %q}}\n",
			time.Now().Add(time.Minute).Format(time.RFC3339))
		s.setRules(t, text, "r")
		replaced := func() uint64 {
			s.takeRules(nil)
			return s.auth.Validity().Rules
		}
		before := replaced()
		<-time.After(59 * time.Second)
		if replaced() != before {
			t.Error("the rules count as replaced while the override holds")
		}
		<-time.After(time.Second)
		if first, again := replaced(), replaced(); first != before+1 || again != before+1 {
			t.Error("the end of the override does not count as one replacement of the rules")
		}
		s.hello(t.Context(), budget.Hello{})
		if got := leader.heard.GetRulesEnded(); got != 1 {
			t.Errorf("the Hello tells of %d overrides that have ended", got)
		}
	})
}
