package coordinator

import (
	"sync"
	"time"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// heardFor is the silence after which a daemon speaks for its region no more, as in the
// leader's machine.
const heardFor = 3 * time.Second

// claims tells which daemon of a region may go by the region's floor although its store has
// not answered since it started. One at a time, for two would admit the floor twice; and none
// beside a daemon with a session, which may have lent it. So a daemon that asks for a session
// waits until the claimant has been told.
//
// They are this node's memory alone. A new leader has none and may take another claimant; the
// one before hears of that with its next Hello, a second later. The zero value has none; safe
// for concurrent use.
type claims struct {
	mu sync.Mutex
	of map[string]claim // by region
}

// claim is a daemon's that is heard.
type claim struct {
	incarnation uint64
	heard       budget.Instant
	wanted      budget.Instant // when another daemon last asked for a session; 0: none did
	told        bool           // the claimant knows of that one
}

// introduced hears a daemon without a store, and returns whose the floor is. session is what
// that is by the sessions of the region's other daemons.
func (c *claims) introduced(region string, incarnation uint64, session aliquotv1.FloorHolder, now budget.Instant) aliquotv1.FloorHolder {
	const other = aliquotv1.FloorHolder_FLOOR_HOLDER_OTHER
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]claim{}
	}
	has := c.of[region]
	own := has.incarnation == incarnation
	switch {
	case session == other:
		if own {
			delete(c.of, region)
		}
		return other
	case !own && recent(has.heard, now):
		return other
	case own && recent(has.wanted, now):
		has.heard, has.told = now, true
		c.of[region] = has
		return other
	}
	c.of[region] = claim{incarnation: incarnation, heard: now}
	return session
}

// wants hears a daemon that asks for a session, and reports whether it has to wait: another
// one may go by the floor and does not know of it yet.
func (c *claims) wants(region string, incarnation uint64, now budget.Instant) (wait bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	has := c.of[region]
	if has.incarnation == incarnation || !recent(has.heard, now) {
		delete(c.of, region)
		return false
	}
	has.wanted = now
	c.of[region] = has
	return !has.told
}

// recent reports whether a daemon that was last heard at an instant, 0 for never, still
// speaks for its region.
func recent(heard, now budget.Instant) bool { return heard != 0 && now.Sub(heard) < heardFor }

// bySession is whose a region's floor is by the sessions of this reign: what the machine knows
// of the region, for a daemon of it that has none. room is for how long none may have been
// heard before everyone has made room for the floor.
func bySession(known budget.RegionStatus, incarnation uint64, began, now budget.Instant, room time.Duration) aliquotv1.FloorHolder {
	heard := known.LastReport
	if known.Incarnation == incarnation {
		heard = 0
	}
	switch {
	case recent(heard, now):
		return aliquotv1.FloorHolder_FLOOR_HOLDER_OTHER
	case heard != 0 && now.Sub(heard) < room:
		return aliquotv1.FloorHolder_FLOOR_HOLDER_NOBODY
	case now.Sub(began) < room:
		return aliquotv1.FloorHolder_FLOOR_HOLDER_UNSPECIFIED
	}
	return aliquotv1.FloorHolder_FLOOR_HOLDER_YOU
}
