package session

import (
	"testing"
	"time"

	"aliquot/limit"
	"aliquot/regional/internal/charge"
)

// TestAClockThatStoppedEndsWhatIsRemembered: another daemon may have had the session meanwhile, and this one can tell
// nobody what it knows.
func TestAClockThatStoppedEndsWhatIsRemembered(t *testing.T) {
	s := newTestSession(t, &lastHello{})
	a := charge.Charge{Planned: charge.Planned{Limit: limit.Limit{Capacity: limit.Token, Rate: limit.Rate{Micro: 1}}}}
	s.emergency.Take([]*charge.Charge{&a}, false, "contents-1", make([]limit.Outcome, 1))
	s.compare(1, 1_000_000, second)
	if s.emergency.InSession(second); s.emergency.Keep() == nil {
		t.Fatal("nothing is kept: nothing is shown")
	}
	if s.compare(1, time.Minute.Microseconds(), second); s.emergency.Keep() != nil {
		t.Error("by the leader's clock this one had stopped for a minute, and what was remembered before is kept")
	}
}
