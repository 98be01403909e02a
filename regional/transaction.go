package regional

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/modes"
	"aliquot/rules"
)

// group is charged all-or-nothing: the limits of one request, or one of its shadow rules.
type group struct {
	cost    limit.Tokens // the request's own; each ask has the cost of its unit
	shadow  bool
	peek    bool // only to read the state: no request asks for tokens
	upkeep  bool // only to return borrowed tokens or to keep them: it costs nothing
	asks    []ask
	allowed bool
	out     []verdict // parallel to asks
	room    []verdict // backing for out, if it is large enough
	self    [1]*group // the group as the only one of its request; nil if it is not needed
	// awaits are closed when tokens have arrived for want of which the store may have denied the
	// group. It is nil if no tokens are under way, or if the group was asked a second time.
	awaits   []<-chan struct{}
	lastTime bool
	// until is how long the caller waits for awaits; zero means not at all.
	until time.Time
	// reserves: the store remembers the group. It borrows nothing, so that a repeated answer equals
	// the first one.
	reserves bool
	// before is the answer to a shadow of a reservation whose other limits were denied and are
	// asked a second time.
	before *chargedBefore
	// undecided are the asks that the store could not be asked about, although it answered about
	// the others. answer is its answer about the others.
	undecided []int
	answer    lua.Result
}

// loneGroup is a group with space for one limit and its result. Most requests have one limit, and
// so they need one allocation. It is not reused, because a call that was given up may still hold
// it.
type loneGroup struct {
	group
	ask     [1]ask
	verdict [1]verdict
}

// newGroup returns a group without limits.
func newGroup(cost limit.Tokens) *group {
	g := &loneGroup{}
	g.cost, g.asks, g.room, g.self[0] = cost, g.ask[:0], g.verdict[:], &g.group
	return &g.group
}

// verdicts returns a slice with one verdict for each limit.
func (g *group) verdicts() []verdict {
	if len(g.asks) <= len(g.room) {
		return g.room[:len(g.asks)]
	}
	return make([]verdict, len(g.asks))
}

// fallsBackLocally reports whether memory may decide the group, because that is the fallback of
// each of its limits.
func (g *group) fallsBackLocally() bool {
	for i := range g.asks {
		if on := g.asks[i].rule.OnRedisFailure; on == rules.FailOpen || on == rules.FailClosed {
			return false
		}
	}
	return true
}

// settle takes over the store's answer, and adds what the state machine has to observe of it.
func (g *group) settle(r lua.Result, seen []observation) []observation {
	g.allowed = r.Allowed
	g.out = g.verdicts()
	for i := range g.asks {
		a, out := &g.asks[i], r.Limits[i]
		holds := r.Allowed || out.Tokens+out.Lent >= a.cost || g.peek && out.Tokens+a.left >= a.cost
		out.Tokens += a.left
		seen = a.used(out.Tokens, seen)
		if !g.upkeep {
			g.out[i] = a.verdict(g, modes.Store, limit.Decide(a.limit, out, a.cost, holds)).with(out)
		}
		// If another limit denied the request, a limit that would have held did not lack tokens.
		// That is no demand.
		if a.alone() || (holds && !r.Allowed || g.peek || g.upkeep || a.passesBy(r.Crowded, i)) && !out.Amnesia {
			continue
		}
		u := budget.Usage{Limit: a.keyLimit(), Admitted: holds, Tokens: int64(max(0, out.Tokens))}
		u.FloorCap, u.ColdCap = int64(a.floorCap), int64(a.coldCap)
		if r.Allowed || !holds {
			u.Cost = int64(a.cost)
		}
		seen = append(seen, observation{key: a.key, usage: u, lost: out.Amnesia})
	}
	return seen
}

// settleHere settles a group that the store has just decided. If the store denied it, tokens may
// have come into this daemon's memory meanwhile.
func (g *group) settleHere(t *localTable, r lua.Result, clock func() budget.Instant, seen []observation) []observation {
	switch {
	case r.Allowed:
		return g.settle(r, seen)
	case !t.second(g, clock):
		if g.await(); g.awaits != nil {
			return g.usedHere(r, seen)
		}
		return g.settle(r, seen)
	}
	for i := range g.asks {
		seen = g.asks[i].used(g.out[i].found.Tokens, seen)
	}
	return seen
}

// usedHere adds observations of what this daemon decided for the keys of a group that is sent once
// more. The second answer replaces the first.
func (g *group) usedHere(r lua.Result, seen []observation) []observation {
	for i := range g.asks {
		a := &g.asks[i]
		seen = a.used(r.Limits[i].Tokens+a.left, seen)
	}
	return seen
}

// anew returns a copy of the group as it was planned. It is for a caller whose own group a call may
// still use after the caller gave up, so it reads only fields that no call changes.
func (g *group) anew() *group {
	out := &group{cost: g.cost, shadow: g.shadow, peek: g.peek, asks: make([]ask, len(g.asks))}
	for i := range g.asks {
		a := &g.asks[i]
		out.asks[i] = ask{
			rule: a.rule, limit: a.limit, window: a.window, cost: a.cost, enforcement: a.enforcement,
			key: a.key, lasts: a.lasts, override: a.override, own: &a.ticket,
		}
	}
	return out
}

// Tokens that were borrowed of a key are on their way to this daemon for a while. The store may
// deny a check that would pass with those tokens. Such a check waits until they have arrived. Then
// the store is asked a second time, and all borrowed tokens go back with that call.

// await notes which calls a denied group has to wait for. It notes none if the group was already
// asked twice, only looks, or has no time left.
func (g *group) await() {
	if g.lastTime || g.upkeep || g.peek || !time.Now().Before(g.until) {
		return
	}
	for i := range g.asks {
		if e := g.asks[i].local; e != nil {
			if landed := e.awaited(); landed != nil {
				g.awaits = append(g.awaits, landed)
			}
		}
	}
}

// maySucceed reports whether a denied reservation is worth asking a second time: a call that brings
// tokens of its keys is still under way, or such tokens have arrived since its own call left. It
// notes the calls to wait for.
func (g *group) maySucceed() bool {
	if g.lastTime {
		return false
	}
	g.await()
	return g.awaits != nil || slices.ContainsFunc(g.asks, func(a ask) bool { return a.local != nil && a.left > 0 })
}

// wait waits for the calls that a group awaits, at most until the group's deadline. Its error is
// errGone.
func (g *group) wait(ctx context.Context) error {
	enough := time.NewTimer(time.Until(g.until))
	defer enough.Stop()
	for _, landed := range g.awaits {
		select {
		case <-landed:
		case <-enough.C:
			g.awaits, g.lastTime = nil, true
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errGone, ctx.Err())
		}
	}
	g.awaits, g.lastTime = nil, true
	return nil
}

// unanswered reports whether any limit of the group was decided without the store's word.
func (g *group) unanswered() bool {
	for i := range g.out {
		if mode := g.out[i].mode; mode != modes.Store && mode != modes.Local {
			return true
		}
	}
	return false
}

// observation is one decision, for the state machine.
type observation struct {
	key   budget.KeyID
	usage budget.Usage
	lost  bool
	// recordless: nothing is known of the record of a cold key, so that only what was admitted counts.
	recordless bool
}

// chargedBefore is the answer to a shadow, and its time by the store's clock in microseconds.
type chargedBefore struct {
	At      int64         `json:"a"`
	Allowed bool          `json:"w,omitempty"`
	Outcome limit.Outcome `json:"o"`
}

// result returns the answer in the form in which the store gave it.
func (b *chargedBefore) result() lua.Result {
	return lua.Result{Allowed: b.Allowed, Limits: []limit.Outcome{b.Outcome}}
}

var (
	// errGone is wrapped with the cause when a caller's context ended first.
	errGone = errors.New("the caller did not wait for the decision")
)

// parts splits a group into the limits that the store could not be asked about, and the others.
func (g *group) parts() (lost, rest *group) {
	lost, rest = &group{cost: g.cost, shadow: g.shadow, until: g.until}, &group{cost: g.cost, shadow: g.shadow, until: g.until}
	for i := range g.asks {
		if slices.Contains(g.undecided, i) {
			lost.asks = append(lost.asks, g.asks[i])
		} else {
			rest.asks = append(rest.asks, g.asks[i])
		}
	}
	return lost, rest
}

// join puts the two halves of parts together again once both are decided.
func (g *group) join(lost, rest *group) {
	g.allowed = lost.allowed && rest.allowed
	g.out = make([]verdict, 0, len(g.asks))
	took := map[*group]int{}
	for i := range g.asks {
		from := rest
		if slices.Contains(g.undecided, i) {
			from = lost
		}
		at := took[from]
		took[from]++
		g.asks[i] = from.asks[at]
		g.out = append(g.out, from.out[at])
	}
	g.undecided, g.answer = nil, lua.Result{}
}

// peeked writes the results of the peeks of a group's limits into the group.
func (g *group) peeked(peeks []*group) {
	g.out, g.allowed = make([]verdict, len(g.asks)), true
	for i, p := range peeks {
		g.asks[i], g.out[i] = p.asks[0], p.out[0]
		g.allowed = g.allowed && g.out[i].decision.Allowed
	}
	if g.allowed {
		g.asIfCharged()
	}
}

// asIfCharged turns the decisions of a group that would be allowed into those that an actual charge
// would return.
func (g *group) asIfCharged() {
	for i := range g.asks {
		a, v := &g.asks[i], &g.out[i]
		if v.mode != modes.Store && v.mode != modes.Emergency {
			continue
		}
		after := v.found
		after.Tokens -= a.cost
		*v = a.verdict(g, v.mode, limit.Decide(a.limit, after, a.cost, true)).with(v.found)
	}
}
