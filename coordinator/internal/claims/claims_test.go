package claims

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
		{"another is heard", 1, DaemonTimeout - time.Second, time.Hour, other},
		{"by a new leader", 1, DaemonTimeout - time.Second, time.Second, other},
		{"it fell silent", 1, DaemonTimeout, time.Hour, nobody},
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
		if got := HolderBySessions(known, 7, at(-c.led), at(0), room); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestClaims: of two daemons without a store one goes by the floor; it hears of a daemon that
// asks for a session before that one gets it.
func TestClaims(t *testing.T) {
	var c Floors
	tell := func(when time.Duration, incarnation uint64, session, want aliquotv1.FloorHolder) {
		t.Helper()
		got := c.Claim("us", incarnation, session, at(when))
		if got = c.Confirm("us", incarnation, got, at(when), at(when)); got != want {
			t.Errorf("at %v daemon %d is told %v, want %v", when, incarnation, got, want)
		}
	}
	ask := func(when time.Duration, incarnation uint64, wait bool) {
		t.Helper()
		if got := c.StartSession("us", incarnation, at(when)); got != wait {
			t.Errorf("at %v daemon %d has to wait: %v", when, incarnation, got)
		} else if !wait {
			defer c.SessionDone("us", incarnation, true)
		}
	}
	tell(0, 1, you, you)
	tell(0, 2, you, other)
	tell(time.Second, 1, nobody, nobody)
	tell(DaemonTimeout, 2, you, other)
	tell(time.Second+DaemonTimeout, 2, you, you) // the first was not heard again
	tell(time.Second+DaemonTimeout, 1, you, other)

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
	tell(20*time.Second+DaemonTimeout, 1, you, you) // the one that asked did not come again
	ask(20*time.Second+DaemonTimeout, 3, true)
	ask(20*time.Second+2*DaemonTimeout, 3, false) // the claimant is gone
	tell(30*time.Second, 1, you, you)
	ask(30*time.Second, 1, false) // its store answers
	ask(30*time.Second, 3, false)
	ask(40*time.Second, 5, false)
	tell(40*time.Second, 1, you, you) // what was opened has ended
	if got := c.Claim("eu", 9, you, at(30*time.Second)); got != you {
		t.Errorf("in another region: %v", got)
	}
}

// TestClaimsMeetOnTheWay: what happens between the hearing of a daemon and the answer to it
// counts, however long that takes.
func TestClaimsMeetOnTheWay(t *testing.T) {
	var c Floors
	hear := func(when time.Duration, incarnation uint64) (answer func(later time.Duration) aliquotv1.FloorHolder) {
		whose := c.Claim("us", incarnation, you, at(when))
		return func(later time.Duration) aliquotv1.FloorHolder {
			return c.Confirm("us", incarnation, whose, at(when), at(later))
		}
	}
	check := func(what string, got, want aliquotv1.FloorHolder) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	first := hear(0, 1)
	if !c.StartSession("us", 2, at(time.Second)) {
		t.Error("a session is opened beside one that is about to hear that the floor is its own")
	}
	check("another has asked meanwhile", first(2*time.Second), other)
	if c.StartSession("us", 2, at(2*time.Second)) {
		t.Error("who asks for a session waits, though the claimant was told")
	}
	check("a session is being opened for long", hear(2*DaemonTimeout, 1)(2*DaemonTimeout), other)
	check("and for a third one", hear(4*DaemonTimeout, 3)(4*DaemonTimeout), other)
	c.SessionDone("us", 2, false)
	check("it was not opened", hear(4*DaemonTimeout, 1)(4*DaemonTimeout), you)

	late := hear(time.Minute, 1)
	if c.StartSession("us", 2, at(time.Minute+DaemonTimeout)) {
		t.Error("a claim outlasts its claimant")
	}
	check("its claim is over", late(time.Minute+DaemonTimeout), other)
	c.SessionDone("us", 2, true)

	slow := hear(time.Hour, 1)
	check("it is heard until it is answered", slow(time.Hour+DaemonTimeout), you)
	if !c.StartSession("us", 2, at(time.Hour+2*DaemonTimeout-1)) {
		t.Error("a session is opened beside one that was told that the floor is its own")
	}
	if len(c.opening) != 0 {
		t.Errorf("%v are said to be opening", c.opening)
	}
}
