// Package claims decides which daemon of a region may use the region's floor while the region's store has
// not answered yet. It holds the claims of such daemons, and the sessions of daemons that have stopped.
// Only the leader has them, in its memory.
package claims

import (
	"slices"
	"sync"
	"time"

	"aliquot/budget"
	"aliquot/coordinator/internal/leader"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// DaemonTimeout is the silence after which a daemon no longer speaks for its region, as in the leader's
// state machine.
const DaemonTimeout = 3 * time.Second

// Floors decides which daemon of a region may use the region's floor although its store has not
// answered since it started. Only one may: two would admit the floor twice. None may beside a daemon
// with a session, which may have lent the floor.
//
// So a daemon that asks for a session waits until the daemon with the claim has been informed. Opening
// a session takes a proof of leadership, and a commit for a new region. Meanwhile the floor already
// belongs to the daemon that opens it.
//
// The claims are only in this node's memory. A new leader has none and may accept another claim. The
// daemon with the earlier claim learns of that with its next Hello, a second later. The zero value has
// no claims. It is safe for concurrent use.
type Floors struct {
	mu       sync.Mutex
	byRegion map[string]claim
	opening  map[string][]uint64 // by region: the incarnations whose Hello may still open a session
}

// claim is the claim of one daemon.
type claim struct {
	incarnation     uint64
	lastHello       budget.Instant
	sessionWantedAt budget.Instant // when another daemon last asked for a session; 0: never
	informed        bool           // whether the daemon with the claim knows of that request
}

// HeldByOther is the answer to a daemon that must not use its region's floor.
const HeldByOther = aliquotv1.FloorHolder_FLOOR_HOLDER_OTHER

// Claim handles the Hello of a daemon without a store, and returns who holds the floor. The result is
// not the answer yet: Confirm returns that. session is the holder as far as the sessions of the
// region's other daemons show; no session may open between that reading and this call.
func (c *Floors) Claim(region string, incarnation uint64, session aliquotv1.FloorHolder, now budget.Instant) aliquotv1.FloorHolder {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byRegion == nil {
		c.byRegion = map[string]claim{}
	}
	has := c.byRegion[region]
	own := has.incarnation == incarnation
	switch {
	case session == HeldByOther:
		if own {
			delete(c.byRegion, region)
		}
		return HeldByOther
	case !own && recent(has.lastHello, now):
		return HeldByOther
	case c.sessionWanted(region, incarnation, now):
		if own {
			has.lastHello = now
			c.byRegion[region] = has
		}
		return HeldByOther
	}
	c.byRegion[region] = claim{incarnation: incarnation, lastHello: now}
	return session
}

// Claimed reports whether a daemon without a store was told that the region's floor may be its own, and has not been told
// otherwise since.
func (c *Floors) Claimed(region string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, claimed := c.byRegion[region]
	return claimed
}

// sessionWanted reports whether another daemon has recently asked for a session, or is opening one. The
// caller holds c.mu.
func (c *Floors) sessionWanted(region string, incarnation uint64, now budget.Instant) bool {
	return recent(c.byRegion[region].sessionWantedAt, now) ||
		slices.ContainsFunc(c.opening[region], func(by uint64) bool { return by != incarnation })
}

// Confirm returns the answer to a daemon without a store whose Hello arrived at the instant heard. It
// is called when nothing can fail any more before the answer is sent: a claim counts as informed only
// by an answer that is sent. whose is the result of Claim; it may no longer hold if the answer took
// long.
func (c *Floors) Confirm(region string, incarnation uint64, whose aliquotv1.FloorHolder, heard, now budget.Instant) aliquotv1.FloorHolder {
	c.mu.Lock()
	defer c.mu.Unlock()
	has := c.byRegion[region]
	if has.incarnation != incarnation || has.lastHello != heard {
		return HeldByOther // it lost its claim, or has sent another Hello and waits for that answer
	}
	has.lastHello = now
	if c.sessionWanted(region, incarnation, now) {
		has.informed, whose = true, HeldByOther
	}
	c.byRegion[region] = has
	return whose
}

// StartSession handles the request of a daemon for a session. It reports whether the daemon has to
// wait, because another one may use the floor and is not informed yet. If it does not wait, the caller
// must call SessionDone afterwards.
func (c *Floors) StartSession(region string, incarnation uint64, now budget.Instant) (wait bool) {
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

// SessionDone notes that a Hello which did not have to wait has its answer. With a session the sessions
// themselves show who holds the floor. Without one, the request no longer keeps the floor from anybody
// else.
func (c *Floors) SessionDone(region string, incarnation uint64, session bool) {
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

// recent reports whether a daemon that was last heard at this instant (0: never) still speaks for its
// region.
func recent(heard, now budget.Instant) bool { return heard != 0 && now.Sub(heard) < DaemonTimeout }

// HolderBySessions returns the holder of a region's floor, as far as the sessions of this epoch show it
// to a daemon without a session. known is the status of the region. began is the start of the epoch.
// room is the silence after which every other region has made room for the floor.
func HolderBySessions(known budget.RegionStatus, incarnation uint64, began, now budget.Instant, room time.Duration) aliquotv1.FloorHolder {
	heard := known.LastReport
	if known.Incarnation == incarnation {
		heard = 0
	}
	switch {
	case recent(heard, now):
		return HeldByOther
	case heard != 0 && now.Sub(heard) < room:
		return aliquotv1.FloorHolder_FLOOR_HOLDER_NOBODY
	case now.Sub(began) < room:
		return aliquotv1.FloorHolder_FLOOR_HOLDER_UNSPECIFIED
	}
	return aliquotv1.FloorHolder_FLOOR_HOLDER_YOU
}

// Stopped remembers the sessions of daemons that have stopped, so that the next daemon of the region
// need not wait until the state machine counts the session as silent. Such a session ends only when
// another daemon wants its place: a region whose only daemon restarts must not become silent, because
// that would cost the others a floor. The zero value has none. It is safe for concurrent use.
type Stopped struct {
	mu       sync.Mutex
	byRegion map[string]leader.SessionID // by region: the latest
}

// Add notes that a daemon has ended its session.
func (l *Stopped) Add(region string, of leader.SessionID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byRegion == nil {
		l.byRegion = map[string]leader.SessionID{}
	}
	l.byRegion[region] = of
}

// Last returns the session of the daemon of the region that stopped last, unless EndSession has ended
// it.
func (l *Stopped) Last(region string) (of leader.SessionID, stopped bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of, stopped = l.byRegion[region]
	return of, stopped
}

// EndSession ends the session of a stopped daemon of the region. It reports whether there may
// have been one. The state machine finds it ended before the next event.
func (l *Stopped) EndSession(loop *leader.Loop, region string, index int) bool {
	l.mu.Lock()
	of, left := l.byRegion[region]
	delete(l.byRegion, region)
	l.mu.Unlock()
	return left && loop.EndSession(index, of) == nil
}
