package budget

import (
	"slices"
	"time"
)

const (
	// ForgetDaemonAfter is how long a daemon that fell silent without saying that it stops counts
	// as one that may still spend by the region's store.
	ForgetDaemonAfter = time.Hour
	// yieldAfter is how long a daemon must have had no store before its session goes to another
	// daemon. A shorter outage is one of the store itself and ends for all daemons at once.
	yieldAfter = 2 * time.Second
)

// regionDaemons is what a leader knows of the daemons of one region.
type regionDaemons struct {
	// session is the daemon that has the session, or had the latest one; zero: not known.
	session DaemonID
	// storeless is since when that daemon reports that its store does not answer; 0: the store
	// answers.
	storeless Instant
	// alone and knows are what that daemon last reported of itself and of the others.
	alone bool
	knows []DaemonID
	known []knownDaemon // at most MaxDaemons, ordered by id
	// claimant is the daemon that last said that it has no store and knows of no other daemon, so it
	// admits by its emergency limit. claimedAt is when it said so. No other daemon may spend until the
	// claimant has said otherwise, or has been silent for busyAfter. Zero: there is none.
	claimant  DaemonID
	claimedAt Instant
}

// knownDaemon is a daemon, with the time of its latest message.
type knownDaemon struct {
	id    DaemonID
	heard Instant
}

// recordMessage records that a daemon said Hello or reported.
func (d *regionDaemons) recordMessage(s Standing, now Instant) {
	if s.Daemon == 0 {
		return
	}
	switch {
	case s.Storeless && s.Alone:
		d.claimant, d.claimedAt = s.Daemon, now
	case s.Daemon == d.claimant:
		d.claimant = 0
	}
	at, found := slices.BinarySearchFunc(d.known, s.Daemon, func(k knownDaemon, id DaemonID) int {
		switch {
		case k.id < id:
			return -1
		case k.id > id:
			return 1
		}
		return 0
	})
	if found {
		d.known[at].heard = now
		return
	}
	d.known = slices.Insert(d.known, at, knownDaemon{id: s.Daemon, heard: now})
	if len(d.known) > MaxDaemons {
		d.forget(d.longestSilent())
	}
}

// longestSilent returns the daemon that has been silent for longest.
func (d *regionDaemons) longestSilent() DaemonID {
	return slices.MinFunc(d.known, func(a, b knownDaemon) int { return int(a.heard - b.heard) }).id
}

// forget removes a daemon.
func (d *regionDaemons) forget(id DaemonID) {
	if id == d.claimant {
		d.claimant = 0
	}
	d.known = slices.DeleteFunc(d.known, func(k knownDaemon) bool { return k.id == id })
}

// opened records that the session of a daemon begins.
func (d *regionDaemons) opened(s Standing, now Instant) {
	d.storeless = 0
	d.report(s, now)
}

// report records what the daemon with the session reports of itself.
func (d *regionDaemons) report(s Standing, now Instant) {
	d.recordMessage(s, now)
	d.session, d.alone, d.knows = s.Daemon, s.Alone, s.Others
	switch {
	case !s.Storeless:
		d.storeless = 0
	case d.storeless == 0:
		d.storeless = now
	}
}

// others returns the known daemons except the one that has the session, ordered by id.
func (d *regionDaemons) others(now Instant) []DaemonID { return d.daemonsExcept(d.session, now) }

// daemonsExcept returns the known daemons except id, ordered by id.
func (d *regionDaemons) daemonsExcept(id DaemonID, now Instant) []DaemonID {
	var out []DaemonID
	for _, k := range d.known {
		if k.id != id && now.Sub(k.heard) < ForgetDaemonAfter {
			out = append(out, k.id)
		}
	}
	return out
}

// Beside returns the daemons of region i other than id, ordered by id.
func (l *Leader) Beside(i int, id DaemonID, now Instant) []DaemonID {
	return l.regions[i].daemons.daemonsExcept(id, now)
}

// claimed reports whether a daemon other than id may admit by its emergency limit now.
func (d *regionDaemons) claimed(id DaemonID, now Instant) bool {
	return d.claimant != 0 && d.claimant != id && now.Sub(d.claimedAt) < busyAfter
}

// unmarked reports whether a daemon's message does not count as hearing the region, because its
// store has not taken the mark. The mark tells another daemon of the region that the floor may be
// lent. Without the mark that daemon may take the floor back as if the region were silent.
func (d *regionDaemons) unmarked(s Standing, now Instant) bool {
	return s.Storeless && (len(s.Others) > 0 || len(d.daemonsExcept(s.Daemon, now)) > 0)
}

// yieldsTo reports whether the session goes to another daemon at once. That daemon has the store.
// The daemon with the session has no store, and admits nothing without it.
func (r *leaderRegion) yieldsTo(s Standing, now Instant) bool {
	d := &r.daemons
	return s.Daemon != 0 && s.Daemon != d.session && !s.Storeless &&
		d.storeless != 0 && now.Sub(d.storeless) >= yieldAfter && !d.alone
}

// daemonLeft forgets a daemon that has stopped.
func (l *Leader) daemonLeft(e DaemonLeft) {
	if e.Region >= 0 && e.Region < len(l.regions) {
		l.regions[e.Region].daemons.forget(e.Daemon)
	}
}

// Vouches reports whether a daemon of region i that has no session may spend by the store. It may
// once the daemon with the session has reported that it knows this one, and so admits nothing by an
// emergency limit beside it. Daemons of earlier versions report nothing of other daemons, so they
// are not waited for.
func (l *Leader) Vouches(i int, id DaemonID) bool {
	r := &l.regions[i]
	return r.open && (id == 0 || r.daemons.session == 0 || slices.Contains(r.daemons.knows, id))
}
