package coordinator

import (
	"slices"
	"sync"
	"time"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// heardFor is the silence after which a daemon speaks for its region no more, as in the
// leader's machine.
const daemonTimeout = 3 * time.Second

// claims tells which daemon of a region may go by the region's floor although its store has
// not answered since it started. One at a time, for two would admit the floor twice; and none
// beside a daemon with a session, which may have lent it. So a daemon that asks for a session
// waits until the claimant has been told; and while a session is being opened, which takes a
// proof of leadership, for a new region a commit too, the floor is that daemon's already.
//
// They are this node's memory alone. A new leader has none and may take another claimant; the
// one before hears of that with its next Hello, a second later. The zero value has none; safe
// for concurrent use.
type floorClaims struct {
	mu       sync.Mutex
	byRegion map[string]floorClaim // by region
	opening  map[string][]uint64   // by region, the incarnations whose Hello may open a session yet
}

// claim is a daemon's that is heard.
type floorClaim struct {
	incarnation     uint64
	lastHello       budget.Instant
	sessionWantedAt budget.Instant // when another daemon last asked for a session; 0: none did
	informed        bool           // the claimant knows of that one
}

// anothers is what a daemon is told that must not go by its region's floor.
const heldByOther = aliquotv1.FloorHolder_FLOOR_HOLDER_OTHER

// introduced hears a daemon without a store, and returns whose the floor is; what the daemon
// is told is for answer to say. session is what it is by the sessions of the region's other
// daemons, and is to be as of this call: none opens between the two.
func (c *floorClaims) claim(region string, incarnation uint64, session aliquotv1.FloorHolder, now budget.Instant) aliquotv1.FloorHolder {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byRegion == nil {
		c.byRegion = map[string]floorClaim{}
	}
	has := c.byRegion[region]
	own := has.incarnation == incarnation
	switch {
	case session == heldByOther:
		if own {
			delete(c.byRegion, region)
		}
		return heldByOther
	case !own && recent(has.lastHello, now):
		return heldByOther
	case c.sessionWanted(region, incarnation, now):
		if own {
			has.lastHello = now
			c.byRegion[region] = has
		}
		return heldByOther
	}
	c.byRegion[region] = floorClaim{incarnation: incarnation, lastHello: now}
	return session
}

// asked reports whether a session was lately asked for by another daemon than this one, or is
// being opened for it. c.mu is held.
func (c *floorClaims) sessionWanted(region string, incarnation uint64, now budget.Instant) bool {
	return recent(c.byRegion[region].sessionWantedAt, now) ||
		slices.ContainsFunc(c.opening[region], func(by uint64) bool { return by != incarnation })
}

// answer returns what to tell a daemon without a store that was heard at an instant, when
// nothing stands between it and the answer any more: only an answer that leaves tells
// anyone anything. whose the floor was when it was heard may be over, if that took long.
func (c *floorClaims) confirm(region string, incarnation uint64, whose aliquotv1.FloorHolder, heard, now budget.Instant) aliquotv1.FloorHolder {
	c.mu.Lock()
	defer c.mu.Unlock()
	has := c.byRegion[region]
	if has.incarnation != incarnation || has.lastHello != heard {
		return heldByOther // it has no claim any more, or has asked anew and waits for that answer
	}
	has.lastHello = now
	if c.sessionWanted(region, incarnation, now) {
		has.informed, whose = true, heldByOther
	}
	c.byRegion[region] = has
	return whose
}

// wants hears a daemon that asks for a session, and reports whether it has to wait: another
// one may go by the floor and does not know of it yet. If not, opened ends what begins here.
func (c *floorClaims) startSession(region string, incarnation uint64, now budget.Instant) (wait bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	has, claimed := c.byRegion[region]
	if claimed && (has.incarnation == incarnation || !recent(has.lastHello, now)) {
		delete(c.byRegion, region)
		claimed = false
	}
	if claimed {
		has.sessionWantedAt = now
		c.byRegion[region] = has
	}
	if claimed && !has.informed {
		return true
	}
	if c.opening == nil {
		c.opening = map[string][]uint64{}
	}
	c.opening[region] = append(c.opening[region], incarnation)
	return false
}

// opened hears that a Hello which did not have to wait is answered: with a session, which is
// known by itself from then on, or without, so that it keeps the floor from nobody.
func (c *floorClaims) sessionDone(region string, incarnation uint64, session bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.opening[region], incarnation); i >= 0 {
		c.opening[region] = slices.Delete(c.opening[region], i, i+1)
	}
	if len(c.opening[region]) == 0 {
		delete(c.opening, region)
	}
	if has, claimed := c.byRegion[region]; claimed && !session {
		has.sessionWantedAt = 0
		c.byRegion[region] = has
	}
}

// recent reports whether a daemon that was last heard at an instant, 0 for never, still
// speaks for its region.
func recent(heard, now budget.Instant) bool { return heard != 0 && now.Sub(heard) < daemonTimeout }

// bySession is whose a region's floor is by the sessions of this reign: what the machine knows
// of the region, for a daemon of it that has none. room is for how long none may have been
// heard before everyone has made room for the floor.
func holderBySessions(known budget.RegionStatus, incarnation uint64, began, now budget.Instant, room time.Duration) aliquotv1.FloorHolder {
	heard := known.LastReport
	if known.Incarnation == incarnation {
		heard = 0
	}
	switch {
	case recent(heard, now):
		return heldByOther
	case heard != 0 && now.Sub(heard) < room:
		return aliquotv1.FloorHolder_FLOOR_HOLDER_NOBODY
	case now.Sub(began) < room:
		return aliquotv1.FloorHolder_FLOOR_HOLDER_UNSPECIFIED
	}
	return aliquotv1.FloorHolder_FLOOR_HOLDER_YOU
}
