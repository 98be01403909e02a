package regional

import (
	"context"
	"math"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/rules"
)

// A request is looked at without being charged by asking each of its limits together
// with one that cannot hold its cost: the store settles the record, says what is there,
// and denies. So explaining takes the same way as deciding, whatever the store is, and
// the store has no other way to be kept right.

// blockerRule is the number of the limit that denies. No rule gets it: numbers are
// given from 1 on, and those of independent rules are in the upper half.
const blockerRule = math.MaxUint32

// peek decides a request as of now, and charges nothing. Its error is errGone.
func (l *limiter) peek(ctx context.Context, p *policy, r *request) (decision, error) {
	var d decision
	d.plan(p, r, time.Now().UnixMilli(), nil)
	l.conduct.look(&d, l.auth.now())
	var peeks []*group
	for _, g := range d.groups {
		for _, a := range g.asks {
			a.left = l.auth.local.left(a.key) // which can be had without the store
			peeks = append(peeks, &group{cost: g.cost, shadow: g.shadow, peek: true, asks: []ask{a, blockerOf(&a)}})
		}
	}
	if err := l.spendAll(ctx, peeks); err != nil {
		return d, err
	}
	for _, g := range d.groups {
		g.out, g.allowed = make([]verdict, len(g.asks)), true
		for i := range g.asks {
			g.asks[i], g.out[i] = peeks[i].asks[0], peeks[i].out[0]
			g.allowed = g.allowed && g.out[i].decision.Allowed
		}
		peeks = peeks[len(g.asks):]
		if g.allowed {
			g.asIfCharged()
		}
	}
	return d, nil
}

// asIfCharged words the decisions of a group that would be allowed as after it.
func (g *group) asIfCharged() {
	for i := range g.asks {
		a, v := &g.asks[i], &g.out[i]
		if v.mode != modeStore && v.mode != modeEmergency {
			continue
		}
		after := v.found
		after.Tokens -= a.cost
		*v = a.verdict(g, v.mode, limit.Decide(a.limit, after, a.cost, true)).with(v.found)
	}
}

// blockerOf is a limit in the slot of a's record that no request passes.
func blockerOf(a *ask) ask {
	return ask{
		rule: a.rule, enforcement: rules.Independent, cost: limit.MaxExact,
		limit: limit.Limit{Capacity: limit.Token, Rate: limit.Rate{Micro: int64(limit.Token)}},
		key:   budget.KeyID{Rule: blockerRule, Hash: a.key.Hash},
	}
}
