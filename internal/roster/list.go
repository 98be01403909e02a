package roster

import (
	"slices"
	"time"

	"aliquot/budget"
)

// DropAfter is how long a daemon that no longer calls stays in the list.
const DropAfter = 24 * time.Hour

// Entry is one daemon in the list.
type Entry struct {
	ID budget.DaemonID
	// Read is the highest number that the daemon has read.
	Read uint64
	// At is when the daemon last called, in microseconds of the store's clock.
	At int64
}

// Call is what a daemon sends to the list.
type Call struct {
	Self budget.DaemonID
	// Number is the daemon's own number; 0 asks for one.
	Number uint64
	// Read is as in Entry.
	Read uint64
	// Leaves: the daemon stops, and the list drops it.
	Leaves bool
}

// Reply is the list's answer to a Call.
type Reply struct {
	// Now is the store's clock, microseconds.
	Now int64
	// Number is the caller's number. Last is the highest number that was assigned.
	Number, Last uint64
	// Was: the caller was in the list before the call.
	Was bool
	// Others are the other daemons in the list, the latest callers first.
	Others []Entry
}

// List is the list as a store keeps it: the Go twin of lua/roster.lua. The zero value is empty. A new list numbers from
// the store's clock on. So a daemon that read a list that was lost has not read as far as any number in the new one.
type List struct {
	Last    uint64
	Entries []Entry
}

// Answer applies a call at an instant of the store's clock and returns the reply.
func (l *List) Answer(c Call, now int64) Reply {
	if l.Last == 0 {
		l.Last = uint64(now)
	}
	if c.Number == 0 {
		l.Last++
		c.Number = l.Last
	}
	l.Last = max(l.Last, c.Number)
	kept := make([]Entry, 0, len(l.Entries)+1)
	if !c.Leaves {
		kept = append(kept, Entry{ID: c.Self, Read: c.Read, At: now})
	}
	r := Reply{Now: now, Number: c.Number, Last: l.Last}
	for _, e := range l.Entries {
		r.Was = r.Was || e.ID == c.Self
		if e.ID != c.Self && now-e.At < DropAfter.Microseconds() && len(r.Others) < budget.MaxDaemons-1 {
			r.Others = append(r.Others, e)
		}
	}
	l.Entries = slices.Concat(kept, r.Others)
	return r
}
