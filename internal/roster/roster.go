package roster

import (
	"maps"
	"slices"
	"time"

	"aliquot/budget"
)

const (
	// ReadEvery is how often a daemon reads the list.
	ReadEvery = time.Second
	// ReadSoon is how often a daemon reads while it waits for others, or others may wait for it.
	ReadSoon = 100 * time.Millisecond
	// staleAfter is how long a daemon may spend through the store without reading the list. Other
	// daemons forget it later than that.
	staleAfter = budget.ForgetDaemonAfter / 2
	// wordFor is how long a new daemon waits for a coordinator to vouch for it. A daemon that never
	// had a store is not in the list, but a coordinator knows it.
	wordFor = time.Second
	// waitFor is how long a daemon waits that a coordinator told to: longer than until it is told again.
	waitFor = 3 * time.Second
	// soonFor bounds how long a waiting daemon reads the list at ReadSoon.
	soonFor = 10 * time.Second
)

// Roster is what one daemon knows of the other daemons of its region. It is not safe for concurrent
// use. Use New.
type Roster struct {
	self budget.DaemonID
	// number is this daemon's number in the present contents of the store; 0: none yet. read is the
	// highest number that it has read there.
	number, read uint64
	readAt       budget.Instant // when the list last answered; 0: never
	// reached: the store has told its contents, so the list can be read.
	reached bool
	// waits is until when the daemon waits for a coordinator to vouch for it, after the list first
	// answered, or after a coordinator told it to wait.
	waits  budget.Instant
	began  budget.Instant // when the wait for the others began
	listed map[budget.DaemonID]listed
	told   map[budget.DaemonID]told
	// seen: every other daemon in the list has read of this one. vouched: a coordinator vouches for
	// this daemon.
	seen, vouched bool
	news          bool // the latest reading of the list had a new number
}

// listed is another daemon in the list.
type listed struct {
	at      int64          // Entry.At at the latest reading
	until   budget.Instant // the daemon counts as known until then
	present bool           // it was in the list of the present contents at the latest reading
	reads   bool           // it has read of this daemon
}

// told is another daemon that a leader knows of.
type told struct {
	until budget.Instant
	epoch uint64 // of that leader
}

// New returns the roster of a daemon that starts. kept are the other daemons that it knew when it
// last ran.
func New(self budget.DaemonID, kept []budget.DaemonID, now budget.Instant) *Roster {
	r := &Roster{self: self, listed: map[budget.DaemonID]listed{}, told: map[budget.DaemonID]told{}}
	for _, id := range kept {
		if id != self {
			r.told[id] = told{until: now.Add(budget.ForgetDaemonAfter)}
		}
	}
	return r
}

// Self returns the daemon's own id.
func (r *Roster) Self() budget.DaemonID { return r.self }

// Call returns what to send to the list now.
func (r *Roster) Call() Call { return Call{Self: r.self, Number: r.number, Read: r.read} }

// Contents says that the store has told its contents for the first time, or that they have changed:
// the list starts from nothing, or is an older one.
func (r *Roster) Contents() {
	r.reached = true
	r.number, r.read = 0, 0
	for id, l := range r.listed {
		l.present, l.reads = false, false
		r.listed[id] = l
	}
}

// Answered records the list's reply to a call. The reply must be of the store's present contents.
func (r *Roster) Answered(a Reply, now budget.Instant) {
	if r.stale(now) {
		// Other daemons may have forgotten this one, so it starts again.
		r.seen, r.vouched, r.number, r.readAt = false, false, 0, 0
		return
	}
	if r.readAt == 0 {
		r.began = now
		if !a.Was { // otherwise no other daemon could have found the list without this one
			r.waits = max(r.waits, now.Add(wordFor))
		}
	}
	r.news = a.Last > r.read
	r.number, r.read, r.readAt = a.Number, a.Last, now
	for id, l := range r.listed {
		if l.present && !slices.ContainsFunc(a.Others, func(e Entry) bool { return e.ID == id }) {
			delete(r.listed, id) // the daemon has left
			delete(r.told, id)
		}
	}
	for _, e := range a.Others {
		was, found := r.listed[e.ID]
		l := listed{at: e.At, until: was.until, present: true, reads: e.Read >= a.Number}
		switch {
		case !found:
			age := time.Duration(min(max(a.Now-e.At, 0), DropAfter.Microseconds())) * time.Microsecond
			l.until = now.Add(budget.ForgetDaemonAfter - age)
		case was.at != e.At:
			l.until = now.Add(budget.ForgetDaemonAfter)
		}
		r.listed[e.ID] = l
	}
	// One that has not found the list yet may still come to it while this one waits.
	r.seen = r.everyoneReads(now) || r.seen && !r.awaitsWord(now)
}

// everyoneReads reports whether every other daemon that was found in the list has read of this one.
func (r *Roster) everyoneReads(now budget.Instant) bool {
	for _, l := range r.listed {
		if !l.reads && (l.present || now < l.until) {
			return false
		}
	}
	return true
}

// stale reports whether the list was not read for so long that other daemons forget this one.
func (r *Roster) stale(now budget.Instant) bool {
	return r.readAt != 0 && now.Sub(r.readAt) >= staleAfter
}

// Told records the other daemons of the region that the leader of an epoch knows of.
func (r *Roster) Told(epoch uint64, ids []budget.DaemonID, now budget.Instant) {
	for _, id := range ids {
		if id != r.self {
			r.told[id] = told{until: now.Add(budget.ForgetDaemonAfter), epoch: epoch}
		}
	}
	maps.DeleteFunc(r.told, func(id budget.DaemonID, t told) bool {
		return t.epoch == epoch && !slices.Contains(ids, id) || now >= t.until
	})
}

// Vouched says that a coordinator lets this daemon spend through the store: it has a session, or
// the daemon that has the session knows of this one.
func (r *Roster) Vouched() { r.vouched = true }

// Wait says that no coordinator vouches for this daemon yet.
func (r *Roster) Wait(now budget.Instant) { r.waits = now.Add(waitFor) }

// Spends reports whether this daemon may spend through the store.
func (r *Roster) Spends(now budget.Instant) bool {
	switch {
	case r.stale(now):
		return false
	case r.vouched:
		return true
	}
	return r.readAt != 0 && r.seen && !r.awaitsWord(now)
}

// awaitsWord reports whether the daemon still waits for a coordinator to vouch for it.
func (r *Roster) awaitsWord(now budget.Instant) bool {
	return !r.vouched && now < r.waits
}

// Alone reports whether this daemon may admit by its emergency limit, because it knows of no other
// daemon and waits for none. inSession: it has the region's session.
func (r *Roster) Alone(now budget.Instant, inSession bool) bool {
	if len(r.Others(now)) > 0 || !r.Certainty(now).Suffices(inSession) {
		return false
	}
	return r.readAt == 0 || r.seen || r.vouched
}

// Certainty is how sure a daemon is of which other daemons may spend by the store. The zero value is Certain.
type Certainty uint8

const (
	// Certain: the daemon has read the list of the present contents, or the store has told no contents yet.
	Certain Certainty = iota
	// CertainInSession: it has read only the list of former contents, or is new in the present one and waits for a
	// coordinator's word. Another one that has the session may not be in that list yet.
	CertainInSession
	// Uncertain: it has read no list, though the store has told its contents. A daemon in that list cannot know of this
	// one, and may spend a floor.
	Uncertain
)

// Suffices reports whether a daemon that knows of no other one may count on that. inSession: it has the region's
// session, so no other one can have got it since it last read a list.
func (c Certainty) Suffices(inSession bool) bool {
	return c == Certain || c == CertainInSession && inSession
}

// Certainty returns how sure this daemon is. It is Certain once it knows of another one.
func (r *Roster) Certainty(now budget.Instant) Certainty {
	switch {
	case len(r.Others(now)) > 0:
		return Certain
	case r.Unread() && r.readAt == 0:
		return Uncertain
	case r.Unread() || r.readAt != 0 && r.awaitsWord(now):
		return CertainInSession
	}
	return Certain
}

// Unread reports whether the store has told its contents and their list has not answered yet. Another
// daemon may be in that list, and spend by the store. It cannot know of this one, which the list lacks.
func (r *Roster) Unread() bool { return r.reached && r.number == 0 }

// Others returns the other daemons of the region that this one knows, ordered by id, at most
// budget.MaxDaemons.
func (r *Roster) Others(now budget.Instant) []budget.DaemonID {
	var out []budget.DaemonID
	for id, l := range r.listed {
		if now < l.until {
			out = append(out, id)
		}
	}
	for id, t := range r.told {
		if _, also := r.listed[id]; now < t.until && !also {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out[:min(len(out), budget.MaxDaemons)]
}

// NextRead returns how long to wait before the next reading of the list.
func (r *Roster) NextRead(now budget.Instant) time.Duration {
	if r.news || !r.Spends(now) && now.Sub(r.began) < soonFor {
		return ReadSoon
	}
	return ReadEvery
}
