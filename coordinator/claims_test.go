package coordinator

import (
	"testing"
	"time"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

const (
	unknown = aliquotv1.FloorHolder_FLOOR_HOLDER_UNSPECIFIED
	other   = aliquotv1.FloorHolder_FLOOR_HOLDER_OTHER
	nobody  = aliquotv1.FloorHolder_FLOOR_HOLDER_NOBODY
	you     = aliquotv1.FloorHolder_FLOOR_HOLDER_YOU
)

func at(d time.Duration) budget.Instant { return budget.Instant(time.Hour).Add(d) }

// TestFloorBySession: a floor is nobody's from when its region's daemon falls silent until
// everyone has made room for it, and a leader that is newer than that does not know.
func TestFloorBySession(t *testing.T) {
	const room = 21 * time.Second
	for _, c := range []struct {
		name      string
		incumbent uint64
		heard     time.Duration // before now; 0: never
		led       time.Duration
		want      aliquotv1.FloorHolder
	}{
		{"another is heard", 1, heardFor - time.Second, time.Hour, other},
		{"by a new leader", 1, heardFor - time.Second, time.Second, other},
		{"it fell silent", 1, heardFor, time.Hour, nobody},
		{"room is nearly made", 1, room - 1, time.Hour, nobody},
		{"room is made", 1, room, time.Hour, you},
		{"nobody is heard by a new leader", 0, 0, room - 1, unknown},
		{"nobody was heard for long enough", 0, 0, room, you},
		{"the asking daemon itself was heard", 7, time.Second, time.Hour, you},
	} {
		known := budget.RegionStatus{Incarnation: c.incumbent}
		if c.heard != 0 {
			known.LastReport = at(-c.heard)
		}
		if got := bySession(known, 7, at(-c.led), at(0), room); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestClaims: of two daemons without a store one goes by the floor; it hears of a daemon that
// asks for a session before that one gets it.
func TestClaims(t *testing.T) {
	var c claims
	tell := func(when time.Duration, incarnation uint64, session, want aliquotv1.FloorHolder) {
		t.Helper()
		if got := c.introduced("us", incarnation, session, at(when)); got != want {
			t.Errorf("at %v daemon %d is told %v, want %v", when, incarnation, got, want)
		}
	}
	ask := func(when time.Duration, incarnation uint64, wait bool) {
		t.Helper()
		if got := c.wants("us", incarnation, at(when)); got != wait {
			t.Errorf("at %v daemon %d has to wait: %v", when, incarnation, got)
		}
	}
	tell(0, 1, you, you)
	tell(0, 2, you, other)
	tell(time.Second, 1, nobody, nobody)
	tell(heardFor, 2, you, other)
	tell(time.Second+heardFor, 2, you, you) // the first was not heard again
	tell(time.Second+heardFor, 1, you, other)

	ask(5*time.Second, 3, true)
	ask(5*time.Second, 3, true)
	tell(5*time.Second, 2, you, other)
	ask(6*time.Second, 3, false)
	tell(6*time.Second, 2, other, other) // it has a session
	tell(6*time.Second, 1, other, other)
	ask(6*time.Second, 4, false) // no claim is left: the machine refuses it

	tell(20*time.Second, 1, you, you)
	ask(20*time.Second, 3, true)
	tell(20*time.Second, 1, you, other)
	tell(20*time.Second+heardFor, 1, you, you) // the one that asked did not come again
	ask(20*time.Second+heardFor, 3, true)
	ask(20*time.Second+2*heardFor, 3, false) // the claimant is gone
	tell(30*time.Second, 1, you, you)
	ask(30*time.Second, 1, false) // its store answers
	ask(30*time.Second, 3, false)
	if got := c.introduced("eu", 9, you, at(30*time.Second)); got != you {
		t.Errorf("in another region: %v", got)
	}
}
