package engine

import (
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/storeguard"
	"aliquot/rules"
)

// FallBack decides groups without the store, by each rule's on_redis_failure.
func (l *Engine) FallBack(groups []*charge.Transaction) {
	l.Auth.HoldFloor()
	defer l.Auth.ReleaseFloor()
	l.fallBackAll(groups)
}

// fallBackAll is FallBack for a caller that holds the floor.
func (l *Engine) fallBackAll(groups []*charge.Transaction) {
	contents := l.Auth.Grant(groups).Epoch
	l.nameSlots(groups)
	var seen []charge.Observation
	for _, g := range groups {
		seen = l.fallBackGroup(g, contents, seen)
	}
	l.Auth.Observe(seen)
}

// nameSlots gives names to the slots that groups want. An engine without a store has no reservations.
func (l *Engine) nameSlots(groups []*charge.Transaction) {
	if l.direct != nil {
		l.direct.slots.Name(groups)
	}
}

func (l *Engine) fallBackGroup(g *charge.Transaction, contents string, seen []charge.Observation) []charge.Observation {
	closed := false
	var asks [1]*charge.Charge // room for the number that most groups have
	var outcomes [1]limit.Outcome
	local := asks[:0]
	for i := range g.Charges {
		switch g.Charges[i].Rule.OnRedisFailure {
		case rules.FailClosed:
			closed = true
		case rules.FailOpen:
		default:
			local = append(local, &g.Charges[i])
		}
	}
	out := append(outcomes[:0], make([]limit.Outcome, len(local))...)
	held := len(local) == 0 || l.emergency.Take(local, closed, contents, out)
	g.Allowed = held && !closed
	g.Out = g.EmptyVerdicts()
	for i := range g.Charges {
		a := &g.Charges[i]
		var found limit.Outcome
		d, mode, unknown := limit.Decision{Limit: int64(a.Limit.Capacity / limit.Token)}, modes.Emergency, false
		switch a.Rule.OnRedisFailure {
		case rules.FailClosed:
			mode, unknown = modes.FailClosed, true
		case rules.FailOpen:
			mode, d.Allowed, d.Remaining = modes.FailOpen, true, charge.UnknownRemaining
		default:
			d = limit.Decide(a.Limit, out[0], a.Cost, g.Allowed || out[0].Tokens >= a.Cost)
			unknown = !d.Allowed && !l.emergency.Knows(a)
			seen = appendDemand(seen, a, g, out[0])
			found, out = out[0], out[1:]
		}
		if !d.Allowed {
			d = untilProbe(d, l.probeIn(), unknown || a.Limit.Algorithm.Counts())
		}
		g.Out[i] = a.Verdict(g, mode, d).With(found)
		g.Out[i].Unknown = unknown
	}
	return seen
}

// probeIn returns the time until the answer to the next trial of the store, if the store is well.
func (l *Engine) probeIn() time.Duration {
	if l.direct == nil {
		return storeguard.Deadline
	}
	return l.direct.guard.Breaker.TrialIn() + storeguard.Deadline
}

// untilProbe returns a denial made without the store, with a wait that ends no later than the next
// trial of the store, which may know of more tokens. If nothing is known of the limit, only that
// trial helps, so the wait ends with it.
func untilProbe(d limit.Decision, probe time.Duration, unknown bool) limit.Decision {
	if unknown || d.RetryAfter == limit.Never || d.RetryAfter > probe {
		d.RetryAfter = probe
	}
	if unknown {
		d.ResetAfter = probe
	}
	return d
}

// appendDemand appends an observation of the demand for a hot key, so that the region keeps the
// share that it needs when its store is back. The record of a cold key is not known, so only what
// was admitted counts.
func appendDemand(seen []charge.Observation, a *charge.Charge, g *charge.Transaction, out limit.Outcome) []charge.Observation {
	if g.Peek || !g.Allowed && (!a.Right.Hot || out.Tokens >= a.Cost) {
		return seen
	}
	return append(seen, charge.Observation{Key: a.Key, Recordless: !a.Right.Hot, Usage: budget.Usage{
		Rules: a.Rules, Limit: a.KeyLimit(), Cost: int64(a.Cost), Admitted: g.Allowed, Tokens: int64(out.Tokens),
	}})
}
