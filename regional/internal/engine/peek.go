package engine

import (
	"context"
	"math"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/policy"
	"aliquot/rules"
)

// A peek decides a request without charging it. It sends each limit together with a second limit
// that cannot hold its cost: the store brings the record up to date, reports its state, and denies
// both. So an explanation takes the same way as a decision, and no store needs a second
// implementation that could differ.

// BlockerRule is the number of the limit that always denies. No rule has it: rule numbers count up
// from 1, and those of independent rules are in the upper half.
const BlockerRule = math.MaxUint32

// Peek decides a request as of now and charges nothing. Its error is charge.ErrGone.
func (l *Engine) Peek(ctx context.Context, p *policy.Policy, r *charge.Request) (charge.Decision, error) {
	d := make([]charge.Decision, 1)
	err := l.peekAll(ctx, p, []*charge.Request{r}, d, &charge.Scratch{})
	return d[0], err
}

// peekAll is Peek for several requests, which share calls to the store in the turns of s. It writes one decision for
// each request into into.
func (l *Engine) peekAll(ctx context.Context, p *policy.Policy, requests []*charge.Request, into []charge.Decision, s *charge.Scratch) error {
	var peeks []*charge.Transaction
	for i, r := range requests {
		d := &into[i]
		d.Plan(p, r, time.Now().UnixMilli(), nil)
		l.Keys.Look(d, l.Auth.Now())
		for _, g := range d.Groups {
			for _, a := range g.Charges {
				a.Left = l.Auth.Local.Left(a.Key) // the daemon can spend these without the store
				peeks = append(peeks, &charge.Transaction{Cost: g.Cost, Shadow: g.Shadow, Peek: true, Charges: []charge.Charge{a, blockerOf(&a)}})
			}
		}
	}
	if err := l.spendAll(ctx, peeks, s); err != nil {
		return err
	}
	for i := range requests {
		for _, g := range into[i].Groups {
			g.CollectPeeks(peeks[:len(g.Charges)])
			peeks = peeks[len(g.Charges):]
		}
	}
	return nil
}

// blockerOf returns a limit in the hash slot of a's record that denies every request.
func blockerOf(a *charge.Charge) charge.Charge {
	return charge.Charge{Planned: charge.Planned{
		Rule: a.Rule, Enforcement: rules.Independent, Cost: limit.MaxExact,
		Limit: limit.Limit{Capacity: limit.Token, Rate: limit.Rate{Micro: int64(limit.Token)}},
		Key:   budget.KeyID{Rule: BlockerRule, Hash: a.Key.Hash},
	}}
}
