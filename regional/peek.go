package regional

import (
	"context"
	"math"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/regional/internal/policy"
	"aliquot/rules"
)

// A peek decides a request without charging it. It asks each limit together with a second limit
// that cannot hold its cost: the store settles the record, reports its state, and denies both. So
// an explanation takes the same way as a decision in every store, and no store needs a second
// implementation that could differ.

// blockerRule is the number of the limit that always denies. No rule has it: rule numbers count up
// from 1, and those of independent rules are in the upper half.
const blockerRule = math.MaxUint32

// peek decides a request as of now and charges nothing. Its error is errGone.
func (l *limiter) peek(ctx context.Context, p *policy.Policy, r *request) (decision, error) {
	d := make([]decision, 1)
	err := l.peekAll(ctx, p, []*request{r}, d)
	return d[0], err
}

// peekAll does the same for several requests, which share calls to the store. It writes one
// decision for each request.
func (l *limiter) peekAll(ctx context.Context, p *policy.Policy, requests []*request, into []decision) error {
	var peeks []*group
	for i, r := range requests {
		d := &into[i]
		d.plan(p, r, time.Now().UnixMilli(), nil)
		l.conduct.look(d, l.auth.now())
		for _, g := range d.groups {
			for _, a := range g.asks {
				a.left = l.auth.local.left(a.key) // tokens that are there without asking the store
				peeks = append(peeks, &group{cost: g.cost, shadow: g.shadow, peek: true, asks: []ask{a, blockerOf(&a)}})
			}
		}
	}
	if err := l.spendAll(ctx, peeks); err != nil {
		return err
	}
	for i := range requests {
		for _, g := range into[i].groups {
			g.peeked(peeks[:len(g.asks)])
			peeks = peeks[len(g.asks):]
		}
	}
	return nil
}

// blockerOf returns a limit in the hash slot of a's record that denies every request.
func blockerOf(a *ask) ask {
	return ask{
		rule: a.rule, enforcement: rules.Independent, cost: limit.MaxExact,
		limit: limit.Limit{Capacity: limit.Token, Rate: limit.Rate{Micro: int64(limit.Token)}},
		key:   budget.KeyID{Rule: blockerRule, Hash: a.key.Hash},
	}
}
