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
	Cost   limit.Tokens // of the request; each charge has the cost in its rule's unit
	Shadow bool
	Peek   bool // it only reads the state, and charges nothing
	// ChunkOnly: it only renews or returns a chunk, and charges nothing.
	ChunkOnly bool
	Allowed   bool
	// Reserves: the store remembers the group. Its call borrows nothing, so that a repeated answer
	// equals the first one.
	Reserves bool
	retried  bool // the store has been asked for the second time
	// abandoned is 1 if the caller has given up the call that charges the group. It is set
	// atomically, because the call may be under way.
	abandoned uint32
	Charges   []Charge
	Out       []Verdict       // parallel to Charges
	backing   []Verdict       // memory for Out, if it is large enough
	self      [1]*Transaction // the group as the only one of its request; nil if it is not needed
	// InFlight has a channel for each call in flight that may bring tokens for want of which the
	// store has denied the group. It is nil if there is no such call, or if the group was retried.
	InFlight []<-chan struct{}
	// Until is when the caller stops to wait for InFlight. The zero time means that it does not wait.
	Until time.Time
	// Before is the answer to a shadow limit of a reservation whose other limits were denied and are
	// retried; nil otherwise.
	Before *ChargedBefore
	// Undecided has the indexes of the charges that the store could not decide, although it decided
	// the others, and why. Answer is its answer to the others; nil if it decided all.
	Undecided map[int]error
	Answer    *lua.Result
}

// singleCharge is a group with space for one limit and its verdict. Most requests have one limit, and
// so need no other memory. It is not reused, because a call that was given up may still refer to it.
type singleCharge struct {
	Transaction
	charge  [1]Charge
	verdict [1]Verdict
}

// NewTransaction returns a group without limits.
func NewTransaction(cost limit.Tokens) *Transaction {
	return (&singleCharge{}).begin(cost)
}

func (g *singleCharge) begin(cost limit.Tokens) *Transaction {
	g.Cost, g.Charges, g.backing, g.self[0] = cost, g.charge[:0], g.verdict[:], &g.Transaction
	return &g.Transaction
}

// EmptyVerdicts returns a slice with one verdict for each limit.
func (g *Transaction) EmptyVerdicts() []Verdict {
	if len(g.Charges) <= len(g.backing) {
		return g.backing[:len(g.Charges)]
	}
	return make([]Verdict, len(g.Charges))
}

// FallsBackLocally reports whether memory may decide the group, because that is the fallback of
// each of its limits.
func (g *Transaction) FallsBackLocally() bool {
	for i := range g.Charges {
		if on := g.Charges[i].Rule.OnRedisFailure; on == rules.FailOpen || on == rules.FailClosed {
			return false
		}
	}
	return true
}

// ApplyResult sets the verdicts from the store's answer, and appends the observations of it to seen.
func (g *Transaction) ApplyResult(r lua.Result, seen []Observation) []Observation {
	g.Allowed = r.Allowed
	g.Out = g.EmptyVerdicts()
	for i := range g.Charges {
		a, out := &g.Charges[i], r.Limits[i]
		holds := r.Allowed || out.Tokens+out.Lent >= a.Cost || g.Peek && out.Tokens+a.Left >= a.Cost
		out.Tokens += a.Left
		seen = a.observeCached(out.Tokens, seen)
		if !g.ChunkOnly {
			g.Out[i] = a.Verdict(g, modes.Store, limit.Decide(a.Limit, out, a.Cost, holds)).With(out)
		}
		// If another limit denied the request, a limit that would have held did not lack tokens.
		// That is no demand.
		if a.Independent() || (holds && !r.Allowed || g.Peek || g.ChunkOnly || a.sharesRecord(r.Crowded, i)) && !out.Amnesia {
			continue
		}
		u := budget.Usage{Rules: a.Rules, Limit: a.KeyLimit(), Admitted: holds, Tokens: int64(max(0, out.Tokens))}
		u.FloorCap, u.ColdCap = int64(a.FloorCap), int64(a.ColdCap)
		if (r.Allowed || !holds) && !g.Abandoned() {
			u.Cost = int64(a.Cost) // otherwise nothing was admitted, or the fallback has observed it
		}
		seen = append(seen, Observation{Key: a.Key, Usage: u, Lost: out.Amnesia})
	}
	return seen
}

// ApplyResultOrRetry applies the store's answer to a group. If it is a denial, memory decides the
// group again: tokens may have arrived meanwhile. Otherwise the group may wait for calls in flight;
// it then has no verdicts yet.
func (g *Transaction) ApplyResultOrRetry(t *Table, r lua.Result, clock func() budget.Instant, seen []Observation) []Observation {
	switch {
	case r.Allowed:
		return g.ApplyResult(r, seen)
	case !t.RetryCached(g, clock):
		if g.noteInFlight(); g.InFlight != nil {
			return g.ObserveCached(r, seen)
		}
		return g.ApplyResult(r, seen)
	}
	for i := range g.Charges {
		seen = g.Charges[i].observeCached(g.Out[i].Found.Tokens, seen)
	}
	return seen
}

// ObserveCached appends to seen what memory decided for the keys of a group that is sent once more.
// The second answer replaces the first, which is not observed.
func (g *Transaction) ObserveCached(r lua.Result, seen []Observation) []Observation {
	for i := range g.Charges {
		a := &g.Charges[i]
		seen = a.observeCached(r.Limits[i].Tokens+a.Left, seen)
	}
	return seen
}

// FreshCopy returns a copy of the group as it was planned, for a caller that gave up while a call may
// still use the group. So it reads only what no call changes. What that call charges from now on is not
// observed as admitted.
func (g *Transaction) FreshCopy() *Transaction {
	atomic.StoreUint32(&g.abandoned, 1)
	out := &Transaction{Cost: g.Cost, Shadow: g.Shadow, Peek: g.Peek, Charges: make([]Charge, len(g.Charges))}
	for i := range g.Charges {
		a := &g.Charges[i]
		out.Charges[i] = Charge{Planned: a.Planned, PriorTicket: &a.Ticket}
	}
	return out
}

// Abandoned reports whether the caller has given up the call that charges the group, and goes on with a copy.
func (g *Transaction) Abandoned() bool { return atomic.LoadUint32(&g.abandoned) != 0 }

// Borrowed tokens travel to this daemon for a while. Meanwhile the store may deny a check that would
// pass with those tokens. Such a check waits until they have arrived. Then the store decides it a
// second time, and all borrowed tokens go back with that call.

// noteInFlight sets which calls a denied group has to wait for. It sets none if the group was
// retried, is no request's, or has no time left.
func (g *Transaction) noteInFlight() {
	if g.retried || g.ChunkOnly || g.Peek || !time.Now().Before(g.Until) {
		return
	}
	for i := range g.Charges {
		if e := g.Charges[i].Local; e != nil {
			if landed := e.PendingTokens(); landed != nil {
				g.InFlight = append(g.InFlight, landed)
			}
		}
	}
}

// MaySucceed reports whether a second try of a denied reservation may succeed: a call that may bring
// tokens of its keys is in flight, or such tokens have arrived since its own call left. It sets
// InFlight.
func (g *Transaction) MaySucceed() bool {
	if g.retried {
		return false
	}
	g.noteInFlight()
	return g.InFlight != nil || slices.ContainsFunc(g.Charges, func(a Charge) bool { return a.Local != nil && a.Left > 0 })
}

// Wait waits until the calls in InFlight are over, at most until g.Until. Its error is ErrGone.
func (g *Transaction) Wait(ctx context.Context) error {
	enough := time.NewTimer(time.Until(g.Until))
	defer enough.Stop()
	for _, landed := range g.InFlight {
		select {
		case <-landed:
		case <-enough.C:
			g.InFlight, g.retried = nil, true
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrGone, ctx.Err())
		}
	}
	g.InFlight, g.retried = nil, true
	return nil
}

// Unanswered reports whether a fallback decided any limit of the group.
func (g *Transaction) Unanswered() bool {
	for i := range g.Out {
		if mode := g.Out[i].Mode; mode != modes.Store && mode != modes.Local {
			return true
		}
	}
	return false
}

// Observation tells the state machine of decisions of one key.
type Observation struct {
	Key   budget.KeyID
	Usage budget.Usage
	Lost  bool
	// Recordless: nothing is known of the record of a cold key, so that only what was admitted counts.
	Recordless bool
}

// ChargedBefore is an answer to one limit of a reservation that the store gave earlier, or that was
// given without the store. At is its time by the store's clock in microseconds; 0: unknown.
type ChargedBefore struct {
	At      int64         `json:"a"`
	Allowed bool          `json:"w,omitempty"`
	Outcome limit.Outcome `json:"o"`
}

var (
	// ErrGone is wrapped with the cause when a caller's context ended first.
	ErrGone = errors.New("the caller did not wait for the decision")
)

// Split splits a group into the limits that the store could not decide, and the others.
func (g *Transaction) Split() (lost, rest *Transaction) {
	lost, rest = &Transaction{Cost: g.Cost, Shadow: g.Shadow, Until: g.Until}, &Transaction{Cost: g.Cost, Shadow: g.Shadow, Until: g.Until}
	for i := range g.Charges {
		if _, undecided := g.Undecided[i]; undecided {
			lost.Charges = append(lost.Charges, g.Charges[i])
		} else {
			rest.Charges = append(rest.Charges, g.Charges[i])
		}
	}
	return lost, rest
}

// Join puts the two halves of Split together again once both are decided.
func (g *Transaction) Join(lost, rest *Transaction) {
	g.Allowed = lost.Allowed && rest.Allowed
	g.Out = make([]Verdict, 0, len(g.Charges))
	next := map[*Transaction]int{}
	for i := range g.Charges {
		from := rest
		if _, undecided := g.Undecided[i]; undecided {
			from = lost
		}
		at := next[from]
		next[from]++
		g.Charges[i] = from.Charges[at]
		g.Out = append(g.Out, from.Out[at])
	}
	g.Undecided, g.Answer = nil, nil
}

// CollectPeeks writes the verdicts of the peeks, one for each of the group's limits, into the group.
func (g *Transaction) CollectPeeks(peeks []*Transaction) {
	g.Out, g.Allowed = make([]Verdict, len(g.Charges)), true
	for i, p := range peeks {
		g.Charges[i], g.Out[i] = p.Charges[0], p.Out[0]
		g.Allowed = g.Allowed && g.Out[i].Decision.Allowed
	}
	if g.Allowed {
		g.showAsCharged()
	}
}

// showAsCharged turns the verdicts of a group that would be allowed into those that a charge would
// return.
func (g *Transaction) showAsCharged() {
	for i := range g.Charges {
		a, v := &g.Charges[i], &g.Out[i]
		if v.Mode != modes.Store && v.Mode != modes.Emergency {
			continue
		}
		after := v.Found
		after.Tokens -= a.Cost
		*v = a.Verdict(g, v.Mode, limit.Decide(a.Limit, after, a.Cost, true)).With(v.Found)
	}
}
