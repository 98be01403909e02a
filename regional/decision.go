package regional

import (
	"fmt"
	"slices"
	"time"

	"aliquot/budget"
	"aliquot/internal/abuse"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/policy"
	"aliquot/rules"
)

// unknownRemaining is the remaining number in an answer that did not look at any record.
const unknownRemaining = -1

// verdict is the decision of one limit.
type verdict struct {
	rule   *rules.Rule
	window time.Duration
	cost   limit.Tokens
	shadow bool
	mode   string
	key    budget.KeyID
	limit  limit.Limit
	// unknown: the limit was denied without the store, and nothing is known of its tokens.
	unknown bool
	// held is how the client is held back, if that is why the limit was denied.
	held     abuse.State
	decision limit.Decision
	// found is what the decision found in the record, for Explain; zero if no record was read.
	found limit.Outcome
}

// with returns the verdict with what its decision found.
func (v verdict) with(found limit.Outcome) verdict {
	v.found = found
	return v
}

func (v *verdict) never() bool { return v.decision.RetryAfter == limit.Never }

// decision holds the course of one request: what was decided at once, and the groups that the store
// decides.
type decision struct {
	// mode is set if no limit was asked.
	mode string
	// tooMany is the number of matching limits, if one store call cannot hold them.
	tooMany int
	// never holds the verdicts of limits whose capacity the cost exceeds, or whose clients are held
	// back. If there are any, no limit is asked.
	never  []verdict
	groups []*group
	// order holds the matched rules in the order of the rules file.
	order []*rules.Rule
	// policy is the policy that decided.
	policy *policy.Policy
	// all holds the verdicts if memory decided. Only policy is set then besides.
	all []verdict
	// denier is the entry of a limit that memory denied, at the instant at.
	denier *localEntry
	at     budget.Instant
	// parked: the request has waited for another request's call.
	parked bool
}

// plan finds what a request has to pass at nowMS, in Unix milliseconds. It returns buf for the next
// request.
func (d *decision) plan(p *policy.Policy, r *request, nowMS int64, buf []rules.Matched) []rules.Matched {
	matched := d.match(p, r, nowMS, buf)
	if d.mode == "" {
		var names []byte
		d.limits(p, r, matched, nil, 0, &names)
	}
	return matched
}

// match finds the rules that apply, in buf. It sets mode if no limit decides.
func (d *decision) match(p *policy.Policy, r *request, nowMS int64, buf []rules.Matched) []rules.Matched {
	d.policy = p
	if !p.Known() {
		d.mode = modes.NoRulesYet
		return buf
	}
	list, matched := p.Set.Match(r.attributes, nowMS, buf)
	free := false
	if r.descriptor || p.Set.HasUnlimited() {
		matched, free = r.applying(matched)
	}
	switch {
	case list == rules.Blacklisted:
		d.mode = modes.BlockList
	case list == rules.Whitelisted:
		d.mode = modes.AllowList
	case free:
		d.mode = modes.Unlimited
	case len(matched) == 0:
		d.mode = modes.NoRule
	}
	return matched
}

// passes reports whether a request passes of which no limit was asked.
func (d *decision) passes() bool {
	switch d.mode {
	case modes.BlockList:
		return false
	case modes.NoRulesYet:
		return d.policy.Open
	}
	return true
}

// limits makes the groups: one for all limits that can deny, and one for each shadow limit. So a
// shadow rule never gets in the way of the others. If t is not nil, the request is a check at now
// and is counted in t. The buffer holds keys, and is kept for the next request.
func (d *decision) limits(p *policy.Policy, r *request, matched []rules.Matched, t *localTable, now budget.Instant, buf *[]byte) {
	strict := newGroup(r.cost)
	var shadows []*group
	encoded := *buf
	defer func() { *buf = encoded }()
	for _, m := range matched {
		cost, applies := r.costOf(m.Rule)
		if !applies {
			continue
		}
		d.order = append(d.order, m.Rule)
		encoded = r.keyValues(m.Rule, encoded[:0])
		hash := p.Hasher.Key(r.namespace, encoded)
		shadow := m.Rule.Shadows(hash)
		a := ask{
			rule: m.Rule, limit: m.Limit, window: m.Window, cost: cost, enforcement: m.Rule.Enforcement,
			key: budget.KeyID{Rule: p.Numbers[m.Rule.ID], Hash: hash},
		}
		if p.HasFormer() && !r.brings(m.Rule) {
			a.changed = p.Changed(a.key.Rule, m.Rule, r.attributes.Get("api_key"), m.Limit, now)
		}
		if m.Override != nil {
			a.override = m.Override.Pattern
		}
		if cost > m.Limit.Capacity {
			d.tooCostly(&a, shadow)
			continue
		}
		if a.alone() {
			a.key.Rule |= policy.IndependentBit
		}
		if t != nil && m.Rule.LocalCache {
			a.local = t.seen(&a, r, shadow, now)
		}
		if shadow {
			alone := newGroup(r.cost)
			alone.shadow, alone.asks = true, append(alone.asks, a)
			shadows = append(shadows, alone)
		} else {
			strict.asks = append(strict.asks, a)
		}
	}
	if len(d.order) == 0 {
		d.mode = modes.NoRule
		return
	}
	if len(strict.asks) > lua.MaxLimits {
		d.tooMany = len(strict.asks)
		return
	}
	for i := range d.never {
		if !d.never[i].shadow {
			return // denied for ever: nothing is consumed anywhere
		}
	}
	if len(strict.asks) > 0 {
		d.groups = strict.self[:]
	}
	if len(shadows) > 0 {
		d.groups = append(d.groups, shadows...)
	}
}

func (d *decision) tooCostly(a *ask, shadow bool) {
	d.never = append(d.never, a.verdict(&group{shadow: shadow}, modes.Store, limit.Decision{
		Limit: int64(a.limit.Capacity / limit.Token), RetryAfter: limit.Never,
	}))
}

// verdicts returns the verdicts of all limits in the order of the rules, and the headline among
// them.
func (d *decision) verdicts() (all []verdict, headline *verdict) {
	if d.all != nil {
		return d.all, strictest(d.all)
	}
	all = append(all, d.never...)
	for _, g := range d.groups {
		all = append(all, g.out...)
	}
	slices.SortStableFunc(all, func(a, b verdict) int {
		return slices.Index(d.order, a.rule) - slices.Index(d.order, b.rule)
	})
	return all, strictest(all)
}

// strictest returns the headline among verdicts, or nil if there are none.
func strictest(all []verdict) (headline *verdict) {
	for i := range all {
		v := &all[i]
		if headline == nil || stricter(v, headline) {
			headline = v
		}
	}
	return headline
}

// stricter reports whether v comes before than as the headline: limits that can deny before
// shadows, a denial before a pass, then the longest wait, then the smallest remaining part of its
// limit.
func stricter(v, than *verdict) bool {
	switch {
	case v.shadow != than.shadow:
		return than.shadow
	case v.decision.Allowed != than.decision.Allowed:
		return !v.decision.Allowed
	case !v.decision.Allowed && v.decision.RetryAfter != than.decision.RetryAfter:
		return v.decision.RetryAfter > than.decision.RetryAfter
	}
	// Compare remaining/limit without a division. Each is at most 1e9.
	return v.decision.Remaining*than.decision.Limit < than.decision.Remaining*v.decision.Limit
}

// why returns the reason of an answer in a sentence, or an empty text if the headline says it all.
func why(all []verdict, headline *verdict) string {
	switch {
	case headline.never() && !headline.shadow:
		return fmt.Sprintf("cost %d is above the capacity %d of rule %s; no waiting helps, split the request",
			headline.cost/limit.Token, headline.decision.Limit, headline.rule.ID)
	case headline.held != abuse.Free:
		return headline.whyHeld()
	case headline.mode == modes.Emergency:
		return "degraded: the regional store does not answer; an emergency limit of this daemon decided"
	case headline.mode == modes.FailOpen:
		return "degraded: the regional store does not answer; rule " + headline.rule.ID + " fails open"
	case headline.mode == modes.FailClosed:
		return "degraded: the regional store does not answer; rule " + headline.rule.ID + " fails closed"
	}
	for i := range all {
		if all[i].shadow && !all[i].decision.Allowed {
			return "shadow rule " + all[i].rule.ID + " would have denied this request"
		}
	}
	return ""
}

// hold checks each watched limit that can deny. If any denies, their verdicts become the decision.
func (d *decision) hold(now budget.Instant, held func(*ask) abuse.Hold) {
	denied := false
	for _, g := range d.groups {
		for i := range g.asks {
			a := &g.asks[i]
			if g.shadow || !a.rule.Watched() {
				continue
			}
			if h := held(a); h.State != abuse.Free {
				d.never = append(d.never, a.heldBack(h, now))
				denied = true
			}
		}
	}
	if denied {
		d.groups = nil
	}
}

// whyHeld returns the reason of a denial of a client that is held back.
func (v *verdict) whyHeld() string {
	if v.held == abuse.Blocked {
		until := time.Now().Add(v.decision.RetryAfter).UTC().Format(time.RFC3339)
		return fmt.Sprintf("blocked in this region until %s by rule %s: denied %d times within %v", until, v.rule.ID, v.rule.AutoBlock.After, v.rule.AutoBlock.Within)
	}
	return "cool-down of rule " + v.rule.ID + ": requests came before the time that was told; wait as long as retry_after says"
}

// hopeless reports whether a limit that can deny is too small for the request.
func (d *decision) hopeless() bool {
	return slices.ContainsFunc(d.never, func(v verdict) bool { return !v.shadow })
}
