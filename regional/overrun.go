package regional

import (
	"context"

	"aliquot/internal/abuse"
	"aliquot/limit"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/policy"
)

// Rules with overrun: debt are for costs that are known only when they have been spent, such as
// those that Envoy sends when a response has ended (apply_on_stream_done). A cost that the limit
// does not hold is charged nevertheless, by the same transition as an overrun reservation. The debt
// is at most the size of the limit.

// overrun charges what denied requests have used to the limits of rules with debt, once. Without
// the store it charges nothing.
func (l *limiter) overrun(ctx context.Context, requests []request, decisions []decision) {
	for i := range decisions {
		d := &decisions[i]
		if d.mode != "" || d.policy == nil || !d.policy.Set.HasDebts() {
			continue
		}
		if parts := l.overran(d, &requests[i]); len(parts.asks) > 0 {
			l.charge(ctx, d, parts)
		}
	}
}

// overran returns the limits to which a denied request has to be charged.
func (l *limiter) overran(d *decision, r *request) *group {
	parts := &group{}
	all, head := d.verdicts()
	if d.tooMany > 0 || head == nil || head.shadow || head.decision.Allowed || head.held != abuse.Free ||
		head.mode != modes.Store && head.mode != modes.Local {
		return parts
	}
	for i := range all {
		v := &all[i]
		if !v.rule.Debt || v.shadow && v.decision.Allowed || v.limit.Capacity == 0 {
			continue
		}
		a := ask{rule: v.rule, limit: v.limit, window: v.window, cost: v.cost, enforcement: v.rule.Enforcement, key: v.key}
		if d.policy.HasFormer() && !r.brings(v.rule) {
			a.changed = d.policy.Changed(a.key.Rule&^policy.IndependentBit, v.rule, r.attributes.Get("api_key"), v.limit, l.auth.now())
		}
		if a.alone() {
			a.key.Rule |= policy.IndependentBit
		}
		parts.asks = append(parts.asks, a)
	}
	return parts
}

// charge makes the charges, and updates the decision's state of these limits.
func (l *limiter) charge(ctx context.Context, d *decision, parts *group) {
	used := make([]limit.Tokens, len(parts.asks))
	for i := range parts.asks {
		a := &parts.asks[i]
		used[i], a.cost = min(a.cost, limit.MaxExact), 0
	}
	adjusted, err := answerAlone(ctx, l, func(ctx context.Context) ([]limit.Adjusted, error) {
		return l.direct.overrun(ctx, parts, used)
	})
	if err != nil {
		return
	}
	all, _ := d.verdicts()
	for i := range all {
		for j := range parts.asks {
			if all[i].rule == parts.asks[j].rule && !all[i].never() {
				d.owes(&all[i], &adjusted[j])
			}
		}
	}
}

// owes updates a limit's decision to the state after a charge. For a counting limit it leaves out
// when the same cost would fit again; the next request learns that.
func (d *decision) owes(v *verdict, charged *limit.Adjusted) {
	if v.limit.Algorithm.Counts() {
		v.decision.Remaining = int64(charged.Tokens / limit.Token)
	} else {
		after := v.found
		after.Tokens -= charged.Charged
		decided := limit.Decide(v.limit, after, v.cost, v.decision.Allowed)
		v.decision.Remaining, v.decision.RetryAfter, v.decision.ResetAfter = max(0, decided.Remaining), decided.RetryAfter, decided.ResetAfter
	}
	for _, g := range d.groups {
		for i := range g.out {
			if g.out[i].key == v.key {
				g.out[i].decision = v.decision
			}
		}
	}
}

// overrun charges to limits what was used although they did not hold it.
func (a *asker) overrun(ctx context.Context, parts *group, used []limit.Tokens) (out []limit.Adjusted, err error) {
	groups := []*group{parts}
	a.auth.floors.RLock()
	defer a.auth.floors.RUnlock()
	head := a.auth.grant(groups)
	if head.epoch == "" {
		return nil, errNoEpoch
	}
	err = a.guard.call(ctx, "overrun", head.epoch, func(ctx context.Context) (now int64, err error) {
		a.emergency.overran(parts, used, head.epoch)
		out, err = a.guard.store.Adjust(ctx, head.epoch, partsOf(&head, parts.asks, used, make([]chargedAt, len(used))))
		return 0, err
	})
	a.emergency.adjusted(parts, err == nil)
	if err == nil {
		a.auth.adjusted(parts.asks, out)
	}
	return out, err
}
