package budget

import (
	"slices"
	"time"
)

const (
	// ForgetDaemonAfter is how long a daemon that is not heard any more, and did not say that
	// it stops, counts as one that may still spend by the region's store.
	ForgetDaemonAfter = time.Hour
	// yieldAfter is how long a daemon has to have had no store before its session goes to
	// another one: shorter outages are of the store, and end for all daemons at once.
	yieldAfter = 2 * time.Second
)

// regionDaemons is what a leader knows of the daemons of one region.
type regionDaemons struct {
	// session is the daemon that has the session, or had the last one; zero: not known.
	session DaemonID
	// storeless is since when it reports that its store does not answer; 0: it does.
	storeless Instant
	// alone and knows are what it said last of itself and of the others.
	alone bool
	knows []DaemonID
	known []knownDaemon // at most MaxDaemons, by their ids
}

// knownDaemon is a daemon and when it was last heard.
type knownDaemon struct {
	id    DaemonID
	heard Instant
}

// hear notes that a daemon says Hello or reports.
func (d *regionDaemons) hear(s Standing, now Instant) {
	if s.Daemon == 0 {
		return
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
		d.forget(d.quietest())
	}
}

// quietest is the daemon that was not heard for the longest time.
func (d *regionDaemons) quietest() DaemonID {
	return slices.MinFunc(d.known, func(a, b knownDaemon) int { return int(a.heard - b.heard) }).id
}

// forget drops a daemon.
func (d *regionDaemons) forget(id DaemonID) {
	d.known = slices.DeleteFunc(d.known, func(k knownDaemon) bool { return k.id == id })
}

// opened notes whose session begins.
func (d *regionDaemons) opened(s Standing, now Instant) {
	d.storeless = 0
	d.report(s, now)
}

// report notes what the daemon with the session says of itself.
func (d *regionDaemons) report(s Standing, now Instant) {
	d.hear(s, now)
	d.session, d.alone, d.knows = s.Daemon, s.Alone, s.Others
	switch {
	case !s.Storeless:
		d.storeless = 0
	case d.storeless == 0:
		d.storeless = now
	}
}

// others are the known daemons without the one that has the session, by their ids.
func (d *regionDaemons) others(now Instant) []DaemonID { return d.besides(d.session, now) }

// besides are the known daemons without one, by their ids.
func (d *regionDaemons) besides(id DaemonID, now Instant) []DaemonID {
	var out []DaemonID
	for _, k := range d.known {
		if k.id != id && now.Sub(k.heard) < ForgetDaemonAfter {
			out = append(out, k.id)
		}
	}
	return out
}

// unmarked reports whether a daemon's message is no sign that the region is heard: its store
// has not taken the mark, by which another daemon of the region finds out that the floor may
// be lent. So that one may take the floor back as if the region was silent.
func (d *regionDaemons) unmarked(s Standing, now Instant) bool {
	return s.Storeless && (len(s.Others) > 0 || len(d.besides(s.Daemon, now)) > 0)
}

// yieldsTo reports whether the session goes to another daemon at once: that one has the
// store, and the one with the session has none, and admits nothing without it.
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

// Vouches reports whether a daemon of region i that has no session may spend by the store:
// the daemon with the session has said that it knows of this one, so it does not admit
// anything by an emergency limit beside it. Daemons of earlier versions, which say nothing of
// others, are not waited for.
func (l *Leader) Vouches(i int, id DaemonID) bool {
	r := &l.regions[i]
	return r.open && (id == 0 || r.daemons.session == 0 || slices.Contains(r.daemons.knows, id))
}
