package regional

import (
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/rules"
)

// closedRetry is the wait told by a rule that fails closed, and by a limit that counts,
// of which nothing is admitted without the store: the breaker asks the
// store again after half a second at first, and every few seconds in a long outage.
const closedRetry = time.Second

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
	var asks [1]*ask // room for what most groups have
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
		d, mode := limit.Decision{Limit: int64(a.limit.Capacity / limit.Token)}, modeEmergency
		switch a.rule.OnRedisFailure {
		case rules.FailClosed:
			mode, d.RetryAfter, d.ResetAfter = modeFailClosed, closedRetry, closedRetry
		case rules.FailOpen:
			mode, d.Allowed, d.Remaining = modeFailOpen, true, unknownRemaining
		default:
			d = limit.Decide(a.limit, out[0], a.cost, g.allowed || out[0].Tokens >= a.cost)
			if a.limit.Algorithm.Counts() && !d.Allowed {
				d.RetryAfter, d.ResetAfter = closedRetry, closedRetry // not before the store is back
			}
			seen = demand(seen, a, g, out[0])
			found, out = out[0], out[1:]
		}
		g.out[i] = a.verdict(g, mode, d).with(found)
	}
	return seen
}

// unanswered reports whether something was decided of the group without the store's word.
func (g *group) unanswered() bool {
	for i := range g.out {
		if mode := g.out[i].mode; mode != modeStore && mode != modeLocal {
			return true
		}
	}
	return false
}

// demand tells the machine what a hot key was asked for, so that the region keeps
// the share it will need when its store is back. A cold key's record is not known,
// so nothing is said of it.
func demand(seen []observation, a *ask, g *group, out limit.Outcome) []observation {
	if g.peek || !a.right.Hot || !g.allowed && out.Tokens >= a.cost {
		return seen
	}
	return append(seen, observation{key: a.key, usage: budget.Usage{
		Limit: a.keyLimit(), Cost: int64(a.cost), Admitted: g.allowed, Tokens: int64(out.Tokens),
	}})
}
