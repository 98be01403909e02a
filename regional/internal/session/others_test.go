package session

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/roster"
	"aliquot/internal/storeclock"
	"aliquot/regional/internal/emergency"
)

// TestADaemonSaysWhatItMayAdmit: a store that takes no mark counts as none in a session's reports, and a daemon that has
// left the floor to another one does not say that it admits by itself.
func TestADaemonSaysWhatItMayAdmit(t *testing.T) {
	t.Parallel()
	now := func() budget.Instant { return 100 * budget.Instant(time.Second) }
	o := &Others{roster: roster.New(7, nil, now()), emergency: emergency.New(now, storeclock.New(), nil), now: now}
	if s := o.inSession(false); s.Storeless || !s.Alone {
		t.Errorf("a daemon with its store, that knows of no other: %+v", s)
	}
	if o.recordMark(false); !o.inSession(false).Storeless || o.standing(false).Storeless {
		t.Errorf("without the mark it says %+v in its session, and %+v in a Hello", o.inSession(false), o.standing(false))
	}
	o.recordMark(true)
	if o.emergency.LeaveFloor(true); o.standing(true).Alone {
		t.Error("it has left the floor to another daemon, and says that it admits by it")
	}
}
