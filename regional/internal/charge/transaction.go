package charge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/modes"
	"aliquot/rules"
)

// Transaction is charged all-or-nothing: the limits of one request, or one of its shadow rules.
type Transaction struct {
	Cost    limit.Tokens // the request's own; each ask has the cost of its unit
	Shadow  bool
	Peek    bool // only to read the state: no request asks for tokens
	Upkeep  bool // only to return borrowed tokens or to keep them: it costs nothing
	Asks    []Charge
	Allowed bool
	Out     []Verdict       // parallel to asks
	backing []Verdict       // backing for out, if it is large enough
	self    [1]*Transaction // the group as the only one of its request; nil if it is not needed
	// Awaits are closed when tokens have arrived for want of which the store may have denied the
	// group. It is nil if no tokens are under way, or if the group was asked a second time.
	Awaits   []<-chan struct{}
	lastTime bool
	// Until is how long the caller waits for awaits; zero means not at all.
	Until time.Time
	// Reserves: the store remembers the group. It borrows nothing, so that a repeated answer equals
	// the first one.
	Reserves bool
	// Before is the answer to a shadow of a reservation whose other limits were denied and are
	// asked a second time.
	Before *ChargedBefore
	// Undecided are the asks that the store could not be asked about, although it answered about
	// the others. answer is its answer about the others.
	Undecided []int
	Answer    lua.Result
	// abandoned is 1 if the caller has given up the call that charges the group. It is set
	// atomically, because the call may be under way.
	abandoned uint32
}

// loneGroup is a group with space for one limit and its result. Most requests have one limit, and
// so they need one allocation. It is not reused, because a call that was given up may still hold
// it.
type loneGroup struct {
	Transaction
	ask     [1]Charge
	verdict [1]Verdict
}

// NewTransaction returns a group without limits.
func NewTransaction(cost limit.Tokens) *Transaction {
	g := &loneGroup{}
	g.Cost, g.Asks, g.backing, g.self[0] = cost, g.ask[:0], g.verdict[:], &g.Transaction
	return &g.Transaction
}

// EmptyVerdicts returns a slice with one verdict for each limit.
func (g *Transaction) EmptyVerdicts() []Verdict {
	if len(g.Asks) <= len(g.backing) {
		return g.backing[:len(g.Asks)]
	}
	return make([]Verdict, len(g.Asks))
}

// FallsBackLocally reports whether memory may decide the group, because that is the fallback of
// each of its limits.
func (g *Transaction) FallsBackLocally() bool {
	for i := range g.Asks {
		if on := g.Asks[i].Rule.OnRedisFailure; on == rules.FailOpen || on == rules.FailClosed {
			return false
		}
	}
	return true
}

// Settle takes over the store's answer, and adds what the state machine has to observe of it.
func (g *Transaction) Settle(r lua.Result, seen []Observation) []Observation {
	g.Allowed = r.Allowed
	g.Out = g.EmptyVerdicts()
	for i := range g.Asks {
		a, out := &g.Asks[i], r.Limits[i]
		holds := r.Allowed || out.Tokens+out.Lent >= a.Cost || g.Peek && out.Tokens+a.Left >= a.Cost
		out.Tokens += a.Left
		seen = a.used(out.Tokens, seen)
		if !g.Upkeep {
			g.Out[i] = a.Verdict(g, modes.Store, limit.Decide(a.Limit, out, a.Cost, holds)).With(out)
		}
		// If another limit denied the request, a limit that would have held did not lack tokens.
		// That is no demand.
		if a.Alone() || (holds && !r.Allowed || g.Peek || g.Upkeep || a.passesBy(r.Crowded, i)) && !out.Amnesia {
			continue
		}
		u := budget.Usage{Rules: a.Rules, Limit: a.KeyLimit(), Admitted: holds, Tokens: int64(max(0, out.Tokens))}
		u.FloorCap, u.ColdCap = int64(a.FloorCap), int64(a.ColdCap)
		if (r.Allowed || !holds) && !g.Abandoned() {
			u.Cost = int64(a.Cost) // else nobody was admitted, or the caller's fallback has told it
		}
		seen = append(seen, Observation{Key: a.Key, Usage: u, Lost: out.Amnesia})
	}
	return seen
}

// SettleHere settles a group that the store has just decided. If the store denied it, tokens may
// have come into this daemon's memory meanwhile.
func (g *Transaction) SettleHere(t *Table, r lua.Result, clock func() budget.Instant, seen []Observation) []Observation {
	switch {
	case r.Allowed:
		return g.Settle(r, seen)
	case !t.Second(g, clock):
		if g.await(); g.Awaits != nil {
			return g.UsedHere(r, seen)
		}
		return g.Settle(r, seen)
	}
	for i := range g.Asks {
		seen = g.Asks[i].used(g.Out[i].Found.Tokens, seen)
	}
	return seen
}

// UsedHere adds observations of what this daemon decided for the keys of a group that is sent once
// more. The second answer replaces the first.
func (g *Transaction) UsedHere(r lua.Result, seen []Observation) []Observation {
	for i := range g.Asks {
		a := &g.Asks[i]
		seen = a.used(r.Limits[i].Tokens+a.Left, seen)
	}
	return seen
}

// FreshCopy returns a copy of the group as it was planned. It is for a caller whose own group a call may
// still use after the caller gave up, so it reads only fields that no call changes. What that call
// charges is no admission from now on.
func (g *Transaction) FreshCopy() *Transaction {
	atomic.StoreUint32(&g.abandoned, 1)
	out := &Transaction{Cost: g.Cost, Shadow: g.Shadow, Peek: g.Peek, Asks: make([]Charge, len(g.Asks))}
	for i := range g.Asks {
		a := &g.Asks[i]
		out.Asks[i] = Charge{
			Rule: a.Rule, Limit: a.Limit, Window: a.Window, Cost: a.Cost, Enforcement: a.Enforcement,
			Key: a.Key, Lasts: a.Lasts, Slot: a.Slot, Override: a.Override, Own: &a.Ticket,
		}
	}
	return out
}

// Abandoned reports whether the caller has given up the call that charges the group, and goes on with a copy.
func (g *Transaction) Abandoned() bool { return atomic.LoadUint32(&g.abandoned) != 0 }

// Tokens that were borrowed of a key are on their way to this daemon for a while. The store may
// deny a check that would pass with those tokens. Such a check waits until they have arrived. Then
// the store is asked a second time, and all borrowed tokens go back with that call.

// await notes which calls a denied group has to wait for. It notes none if the group was already
// asked twice, only looks, or has no time left.
func (g *Transaction) await() {
	if g.lastTime || g.Upkeep || g.Peek || !time.Now().Before(g.Until) {
		return
	}
	for i := range g.Asks {
		if e := g.Asks[i].Local; e != nil {
			if landed := e.Awaited(); landed != nil {
				g.Awaits = append(g.Awaits, landed)
			}
		}
	}
}

// MaySucceed reports whether a denied reservation is worth asking a second time: a call that brings
// tokens of its keys is still under way, or such tokens have arrived since its own call left. It
// notes the calls to wait for.
func (g *Transaction) MaySucceed() bool {
	if g.lastTime {
		return false
	}
	g.await()
	return g.Awaits != nil || slices.ContainsFunc(g.Asks, func(a Charge) bool { return a.Local != nil && a.Left > 0 })
}

// Wait waits for the calls that a group awaits, at most until the group's deadline. Its error is
// ErrGone.
func (g *Transaction) Wait(ctx context.Context) error {
	enough := time.NewTimer(time.Until(g.Until))
	defer enough.Stop()
	for _, landed := range g.Awaits {
		select {
		case <-landed:
		case <-enough.C:
			g.Awaits, g.lastTime = nil, true
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrGone, ctx.Err())
		}
	}
	g.Awaits, g.lastTime = nil, true
	return nil
}

// Unanswered reports whether any limit of the group was decided without the store's word.
func (g *Transaction) Unanswered() bool {
	for i := range g.Out {
		if mode := g.Out[i].Mode; mode != modes.Store && mode != modes.Local {
			return true
		}
	}
	return false
}

// Observation is one decision, for the state machine.
type Observation struct {
	Key   budget.KeyID
	Usage budget.Usage
	Lost  bool
	// Recordless: nothing is known of the record of a cold key, so that only what was admitted counts.
	Recordless bool
}

// ChargedBefore is the answer to one limit that the store did not give with the reservation, and its
// time by the store's clock in microseconds; 0: unknown.
type ChargedBefore struct {
	At      int64         `json:"a"`
	Allowed bool          `json:"w,omitempty"`
	Outcome limit.Outcome `json:"o"`
}

var (
	// ErrGone is wrapped with the cause when a caller's context ended first.
	ErrGone = errors.New("the caller did not wait for the decision")
)

// Parts splits a group into the limits that the store could not be asked about, and the others.
func (g *Transaction) Parts() (lost, rest *Transaction) {
	lost, rest = &Transaction{Cost: g.Cost, Shadow: g.Shadow, Until: g.Until}, &Transaction{Cost: g.Cost, Shadow: g.Shadow, Until: g.Until}
	for i := range g.Asks {
		if slices.Contains(g.Undecided, i) {
			lost.Asks = append(lost.Asks, g.Asks[i])
		} else {
			rest.Asks = append(rest.Asks, g.Asks[i])
		}
	}
	return lost, rest
}

// Join puts the two halves of parts together again once both are decided.
func (g *Transaction) Join(lost, rest *Transaction) {
	g.Allowed = lost.Allowed && rest.Allowed
	g.Out = make([]Verdict, 0, len(g.Asks))
	took := map[*Transaction]int{}
	for i := range g.Asks {
		from := rest
		if slices.Contains(g.Undecided, i) {
			from = lost
		}
		at := took[from]
		took[from]++
		g.Asks[i] = from.Asks[at]
		g.Out = append(g.Out, from.Out[at])
	}
	g.Undecided, g.Answer = nil, lua.Result{}
}

// Peeked writes the results of the peeks of a group's limits into the group.
func (g *Transaction) Peeked(peeks []*Transaction) {
	g.Out, g.Allowed = make([]Verdict, len(g.Asks)), true
	for i, p := range peeks {
		g.Asks[i], g.Out[i] = p.Asks[0], p.Out[0]
		g.Allowed = g.Allowed && g.Out[i].Decision.Allowed
	}
	if g.Allowed {
		g.asIfCharged()
	}
}

// asIfCharged turns the decisions of a group that would be allowed into those that an actual charge
// would return.
func (g *Transaction) asIfCharged() {
	for i := range g.Asks {
		a, v := &g.Asks[i], &g.Out[i]
		if v.Mode != modes.Store && v.Mode != modes.Emergency {
			continue
		}
		after := v.Found
		after.Tokens -= a.Cost
		*v = a.Verdict(g, v.Mode, limit.Decide(a.Limit, after, a.Cost, true)).With(v.Found)
	}
}
