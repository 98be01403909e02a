package engine

import (
	"context"
	"time"

	"aliquot/internal/penalty"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/policy"
)

// Rules with overrun: debt are for costs that are known only when they have been spent, such as
// those that Envoy sends when a response has ended (apply_on_stream_done). A cost that the limit
// does not hold is charged nevertheless, by the same transition as an overrun reservation. The debt
// is at most the size of the limit.

// overrun charges what denied requests have used to the limits of rules with debt, once. Without
// the store it charges nothing.
func (l *Engine) overrun(ctx context.Context, requests []charge.Request, decisions []charge.Decision) {
	for i := range decisions {
		d := &decisions[i]
		if d.Mode != "" || d.Policy == nil || !d.Policy.Set.HasDebts() {
			continue
		}
		if parts := l.overrunCharges(d, &requests[i]); len(parts.Charges) > 0 {
			l.chargeOverrun(ctx, d, parts)
		}
	}
}

// overrunCharges returns the limits to which a denied request has to be charged.
func (l *Engine) overrunCharges(d *charge.Decision, r *charge.Request) *charge.Transaction {
	parts := &charge.Transaction{}
	if l.Policies.At(time.Now().UnixMilli()).State() != d.Policy.State() {
		return parts // it has waited, and its limits may hold no longer
	}
	all, head := d.Verdicts()
	if d.TooMany > 0 || head == nil || head.Shadow || head.Decision.Allowed || head.Held != penalty.Free ||
		head.Mode != modes.Store && head.Mode != modes.Local {
		return parts
	}
	for i := range all {
		v := &all[i]
		if !v.Rule.Debt || v.Shadow && v.Decision.Allowed || v.Limit.Capacity == 0 {
			continue
		}
		a := charge.Charge{Planned: charge.Planned{Rule: v.Rule, Rules: d.Policy.State(), Limit: v.Limit, Window: v.Window, Cost: v.Cost, Enforcement: v.Rule.Enforcement, Key: v.Key}}
		if d.Policy.HasFormer() && !r.Brings(v.Rule) {
			a.Changed = d.Policy.Changed(a.Key.Rule&^policy.IndependentBit, v.Rule, r.Attributes.Get("api_key"), v.Limit, l.Auth.Now())
		}
		if a.Independent() {
			a.Key.Rule |= policy.IndependentBit
		}
		parts.Charges = append(parts.Charges, a)
	}
	return parts
}

// chargeOverrun charges parts, and updates the decision's state of these limits.
func (l *Engine) chargeOverrun(ctx context.Context, d *charge.Decision, parts *charge.Transaction) {
	used := make([]limit.Tokens, len(parts.Charges))
	for i := range parts.Charges {
		a := &parts.Charges[i]
		used[i], a.Cost = min(a.Cost, limit.MaxExact), 0
	}
	adjusted, err := callUnbatched(ctx, l, func(ctx context.Context) ([]limit.Adjusted, error) {
		defer l.emergency.TurnOver(l.emergency.AwaitTurn(ctx, []*charge.Transaction{parts}))
		return l.direct.overrun(ctx, parts, used)
	})
	if err != nil {
		return
	}
	all, _ := d.Verdicts()
	for i := range all {
		for j := range parts.Charges {
			if all[i].Rule == parts.Charges[j].Rule && !all[i].Never() {
				showDebt(d, &all[i], &adjusted[j])
			}
		}
	}
}

// showDebt updates a limit's verdict to the state after a charge. For a counting limit it does not
// compute when the same cost would fit again; the next request learns that.
func showDebt(d *charge.Decision, v *charge.Verdict, charged *limit.Adjusted) {
	if v.Limit.Algorithm.Counts() {
		v.Decision.Remaining = int64(charged.Tokens / limit.Token)
	} else {
		after := v.Found
		after.Tokens -= charged.Charged
		decided := limit.Decide(v.Limit, after, v.Cost, v.Decision.Allowed)
		v.Decision.Remaining, v.Decision.RetryAfter, v.Decision.ResetAfter = max(0, decided.Remaining), decided.RetryAfter, decided.ResetAfter
	}
	for _, g := range d.Groups {
		for i := range g.Out {
			if g.Out[i].Key == v.Key {
				g.Out[i].Decision = v.Decision
			}
		}
	}
}

// overrun charges to limits a use that they did not hold.
func (a *storeClient) overrun(ctx context.Context, parts *charge.Transaction, used []limit.Tokens) (out []limit.Adjusted, err error) {
	groups := []*charge.Transaction{parts}
	a.auth.HoldFloor()
	defer a.auth.ReleaseFloor()
	head, err := a.grant(ctx, groups)
	if err != nil {
		return nil, err
	}
	out, err = a.adjust(ctx, "overrun", &head, parts, used, func(ctx context.Context) (adjusted []limit.Adjusted, now int64, err error) {
		adjusted, err = a.guard.Store.Adjust(ctx, head.Epoch, partsOf(&head, parts.Charges, used, make([]chargedAt, len(used))))
		return adjusted, 0, err // it has no slots to release, so the time does not matter
	})
	if err == nil {
		a.auth.Adjusted(parts.Charges, out)
	}
	return out, err
}
