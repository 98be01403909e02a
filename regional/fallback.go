package regional

import (
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/regional/internal/modes"
	"aliquot/rules"
)

// fallBack decides groups without the store, by each rule's on_redis_failure.
func (l *limiter) fallBack(groups []*group) {
	l.auth.floors.RLock()
	defer l.auth.floors.RUnlock()
	contents := l.auth.grant(groups).epoch
	var seen []observation
	for _, g := range groups {
		seen = l.fallBackGroup(g, contents, seen)
	}
	l.auth.observe(seen)
}

func (l *limiter) fallBackGroup(g *group, contents string, seen []observation) []observation {
	closed := false
	var asks [1]*ask // room for the number that most groups have
	var outcomes [1]limit.Outcome
	local := asks[:0]
	for i := range g.asks {
		switch g.asks[i].rule.OnRedisFailure {
		case rules.FailClosed:
			closed = true
		case rules.FailOpen:
		default:
			local = append(local, &g.asks[i])
		}
	}
	out := append(outcomes[:0], make([]limit.Outcome, len(local))...)
	held := len(local) == 0 || l.emergency.take(local, closed, contents, out)
	g.allowed = held && !closed
	g.out = g.verdicts()
	for i := range g.asks {
		a := &g.asks[i]
		var found limit.Outcome
		d, mode, unknown := limit.Decision{Limit: int64(a.limit.Capacity / limit.Token)}, modes.Emergency, false
		switch a.rule.OnRedisFailure {
		case rules.FailClosed:
			mode, unknown = modes.FailClosed, true
		case rules.FailOpen:
			mode, d.Allowed, d.Remaining = modes.FailOpen, true, unknownRemaining
		default:
			d = limit.Decide(a.limit, out[0], a.cost, g.allowed || out[0].Tokens >= a.cost)
			unknown = !d.Allowed && !l.emergency.knows(a)
			seen = demand(seen, a, g, out[0])
			found, out = out[0], out[1:]
		}
		if !d.Allowed {
			d = untilProbe(d, l.probeIn(), unknown || a.limit.Algorithm.Counts())
		}
		g.out[i] = a.verdict(g, mode, d).with(found)
		g.out[i].unknown = unknown
	}
	return seen
}

// probeIn returns after what time the next trial of the store will have its answer, if the store is
// well.
func (l *limiter) probeIn() time.Duration {
	if l.direct == nil {
		return storeDeadline
	}
	return l.direct.guard.breaker.trialIn() + storeDeadline
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

// demand adds an observation of what was asked of a hot key, so that the region keeps the share it
// will need when its store is back. Of a cold key, whose record is not known, only what was admitted
// counts.
func demand(seen []observation, a *ask, g *group, out limit.Outcome) []observation {
	if g.peek || !g.allowed && (!a.right.Hot || out.Tokens >= a.cost) {
		return seen
	}
	return append(seen, observation{key: a.key, recordless: !a.right.Hot, usage: budget.Usage{
		Limit: a.keyLimit(), Cost: int64(a.cost), Admitted: g.allowed, Tokens: int64(out.Tokens),
	}})
}
