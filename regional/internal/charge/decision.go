package charge

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"aliquot/budget"
	"aliquot/internal/penalty"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/policy"
	"aliquot/rules"
)

// ErrInvalid is wrapped by every error about a malformed request.
var ErrInvalid = errors.New("invalid request")

// ErrTooManyRules is the error of a request that more rules match than one store call can hold.
var ErrTooManyRules = errors.New("too many rules match")

// UnknownRemaining is the remaining number in an answer that did not look at any record.
const UnknownRemaining = -1

// Verdict is the decision of one limit.
type Verdict struct {
	Rule   *rules.Rule
	Window time.Duration
	Cost   limit.Tokens
	Shadow bool
	Mode   string
	Key    budget.KeyID
	Limit  limit.Limit
	// Unknown: the limit was denied without the store, and nothing is known of its tokens.
	Unknown bool
	// Held is how the client is held back, if that is why the limit was denied.
	Held     penalty.State
	Decision limit.Decision
	// Found is what the decision found in the record, for Explain; zero if no record was read.
	Found limit.Outcome
}

// With returns the verdict with what its decision found.
func (v Verdict) With(found limit.Outcome) Verdict {
	v.Found = found
	return v
}

// Never reports whether no wait helps.
func (v *Verdict) Never() bool { return v.Decision.RetryAfter == limit.Never }

// Decision holds the course of one request: what was decided at once, and the groups that the store
// decides.
type Decision struct {
	// Mode is set if no limit took part in the decision.
	Mode string
	// TooMany is the number of matching limits, if one store call cannot hold them.
	TooMany int
	// Never holds the denials that need no store: the cost exceeds the limit's capacity, or the
	// client is held back. If one of them is not of a shadow limit, no limit is charged.
	Never  []Verdict
	Groups []*Transaction
	// Order holds the matched rules in the order of the rules file.
	Order []*rules.Rule
	// Policy is the policy that decided.
	Policy *policy.Policy
	// CachedVerdicts holds the verdicts if memory decided. Then only Policy, Denier and At are set
	// besides.
	CachedVerdicts []Verdict
	// Denier is the entry of a limit that memory denied, at the instant At; nil if memory denied none.
	Denier *Entry
	At     budget.Instant
	// Coalesced: the request has waited for another request's call.
	Coalesced bool
}

// Undecided returns why the request could not be decided, or nil if it was decided.
func (d *Decision) Undecided() error {
	if d.TooMany == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d rules apply to this request, at most 64 may; narrow their match", ErrTooManyRules, d.TooMany)
}

// Plan finds what a request has to pass at nowMS, in Unix milliseconds. It returns buf for the next
// request.
func (d *Decision) Plan(p *policy.Policy, r *Request, nowMS int64, buf []rules.Matched) []rules.Matched {
	matched := d.Match(p, r, nowMS, buf)
	if d.Mode == "" {
		d.Limits(p, r, matched, nil, 0, nil)
	}
	return matched
}

// Renew brings a decision that has waited to the policy in force at nowMS, in Unix milliseconds. It returns false, and
// changes nothing, if a new request would be charged otherwise.
func (d *Decision) Renew(p *policy.Policy, r *Request, nowMS int64) bool {
	if p.State() == d.Policy.State() {
		return true
	}
	var next Decision
	next.Plan(p, r, nowMS, nil)
	if !slices.EqualFunc(d.Groups, next.Groups, (*Transaction).chargesAs) {
		return false
	}
	d.Policy = p
	for i, g := range d.Groups {
		for j := range g.Charges {
			g.Charges[j].Rules, g.Charges[j].Changed = next.Groups[i].Charges[j].Rules, next.Groups[i].Charges[j].Changed
		}
	}
	return true
}

// chargesAs reports whether two groups charge the same keys in the same way.
func (g *Transaction) chargesAs(other *Transaction) bool {
	return g.Shadow == other.Shadow && slices.EqualFunc(g.Charges, other.Charges, func(a, b Charge) bool {
		return a.Key == b.Key && a.Limit == b.Limit && a.Cost == b.Cost && a.Enforcement == b.Enforcement
	})
}

// Match finds the rules that apply, in buf. It sets d.Mode if no limit decides.
func (d *Decision) Match(p *policy.Policy, r *Request, nowMS int64, buf []rules.Matched) []rules.Matched {
	d.Policy = p
	if !p.Known() {
		d.Mode = modes.NoRulesYet
		return buf
	}
	list, matched := p.Set.Match(r.Attributes, nowMS, buf)
	unlimited := false
	if r.Descriptor || p.Set.HasUnlimited() {
		matched, unlimited = r.applying(matched)
	}
	switch {
	case list == rules.Blacklisted:
		d.Mode = modes.BlockList
	case list == rules.Whitelisted:
		d.Mode = modes.AllowList
	case unlimited:
		d.Mode = modes.Unlimited
	case len(matched) == 0:
		d.Mode = modes.NoRule
	}
	return matched
}

// Passes reports whether a request passes that d.Mode decides.
func (d *Decision) Passes() bool {
	switch d.Mode {
	case modes.BlockList:
		return false
	case modes.NoRulesYet:
		return d.Policy.Open
	}
	return true
}

// Limits sets the groups: one for all limits that can deny, and one for each shadow limit. So a
// shadow rule never influences the others. If t is not nil, the request is a check at now, and t
// counts it. s has memory for the groups and their keys; nil: there is none.
func (d *Decision) Limits(p *policy.Policy, r *Request, matched []rules.Matched, t *Table, now budget.Instant, s *Scratch) {
	strict := s.newGroup(r.Cost)
	var shadows []*Transaction
	var encoded []byte
	if s != nil {
		encoded = s.Name
		defer func() { s.Name = encoded }()
	}
	for _, m := range matched {
		cost, applies := r.CostOf(m.Rule)
		if !applies {
			continue
		}
		d.Order = append(d.Order, m.Rule)
		encoded = r.keyValues(m.Rule, encoded[:0])
		hash := p.Hasher.Key(r.Namespace, encoded)
		shadow := m.Rule.Shadows(hash)
		a := Charge{Planned: Planned{
			Rule: m.Rule, Rules: p.State(), Limit: m.Limit, Window: m.Window, Cost: cost, Enforcement: m.Rule.Enforcement,
			Key: budget.KeyID{Rule: p.Numbers[m.Rule.ID], Hash: hash},
		}}
		if p.HasFormer() && !r.Brings(m.Rule) {
			a.Changed = p.Changed(a.Key.Rule, m.Rule, r.Attributes.Get("api_key"), m.Limit, now)
		}
		if m.Override != nil {
			a.Override = m.Override.Pattern
		}
		if cost > m.Limit.Capacity {
			d.rejectTooCostly(&a, shadow)
			continue
		}
		if a.Independent() {
			a.Key.Rule |= policy.IndependentBit
		}
		if t != nil && m.Rule.LocalCache {
			a.Local = t.countCheck(&a, r, shadow, now)
		}
		if shadow {
			one := s.newGroup(r.Cost)
			one.Shadow, one.Charges = true, append(one.Charges, a)
			shadows = append(shadows, one)
		} else {
			strict.Charges = append(strict.Charges, a)
		}
	}
	if len(d.Order) == 0 {
		d.Mode = modes.NoRule
		return
	}
	if len(strict.Charges) > lua.MaxLimits {
		d.TooMany = len(strict.Charges)
		return
	}
	for i := range d.Never {
		if !d.Never[i].Shadow {
			return // denied for ever: nothing is consumed anywhere
		}
	}
	if len(strict.Charges) > 0 {
		d.Groups = strict.self[:]
	}
	if len(shadows) > 0 {
		d.Groups = append(d.Groups, shadows...)
	}
}

func (d *Decision) rejectTooCostly(a *Charge, shadow bool) {
	d.Never = append(d.Never, a.Verdict(&Transaction{Shadow: shadow}, modes.Store, limit.Decision{
		Limit: int64(a.Limit.Capacity / limit.Token), RetryAfter: limit.Never,
	}))
}

// Verdicts returns the verdicts of all limits in the order of the rules, and the headline among
// them. They may be the decision's own.
func (d *Decision) Verdicts() (all []Verdict, headline *Verdict) {
	switch {
	case d.CachedVerdicts != nil:
		return d.CachedVerdicts, strictest(d.CachedVerdicts)
	case len(d.Never) == 0 && len(d.Groups) == 1: // as most have, and in order
		return d.Groups[0].Out, strictest(d.Groups[0].Out)
	}
	all = append(all, d.Never...)
	for _, g := range d.Groups {
		all = append(all, g.Out...)
	}
	slices.SortStableFunc(all, func(a, b Verdict) int {
		return slices.Index(d.Order, a.Rule) - slices.Index(d.Order, b.Rule)
	})
	return all, strictest(all)
}

// strictest returns the headline among verdicts, or nil if there are none.
func strictest(all []Verdict) (headline *Verdict) {
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
func stricter(v, than *Verdict) bool {
	switch {
	case v.Shadow != than.Shadow:
		return than.Shadow
	case v.Decision.Allowed != than.Decision.Allowed:
		return !v.Decision.Allowed
	case !v.Decision.Allowed && v.Decision.RetryAfter != than.Decision.RetryAfter:
		return v.Decision.RetryAfter > than.Decision.RetryAfter
	}
	// Compare remaining/limit without a division. Each is at most 1e9.
	return v.Decision.Remaining*than.Decision.Limit < than.Decision.Remaining*v.Decision.Limit
}

// Why returns the reason of an answer in a sentence, or an empty text if the headline says it all.
func Why(all []Verdict, headline *Verdict) string {
	switch {
	case headline.Never() && !headline.Shadow && headline.Decision.Limit == 0:
		return "the limit " + headline.Rule.ID + " admits nothing; no waiting helps"
	case headline.Never() && !headline.Shadow:
		return fmt.Sprintf("cost %d is above the capacity %d of rule %s; no waiting helps, split the request",
			headline.Cost/limit.Token, headline.Decision.Limit, headline.Rule.ID)
	case headline.Held != penalty.Free:
		return headline.WhyHeld()
	case headline.Mode == modes.Emergency:
		return "degraded: the regional store does not answer; an emergency limit of this daemon decided"
	case headline.Mode == modes.FailOpen:
		return "degraded: the regional store does not answer; rule " + headline.Rule.ID + " fails open"
	case headline.Mode == modes.FailClosed:
		return "degraded: the regional store does not answer; rule " + headline.Rule.ID + " fails closed"
	}
	for i := range all {
		if all[i].Shadow && !all[i].Decision.Allowed {
			return "shadow rule " + all[i].Rule.ID + " would have denied this request"
		}
	}
	return ""
}

// Hold checks each watched limit that can deny. If any denies, their verdicts become the decision.
func (d *Decision) Hold(now budget.Instant, held func(*Charge) penalty.Hold) {
	denied := false
	for _, g := range d.Groups {
		for i := range g.Charges {
			a := &g.Charges[i]
			if g.Shadow || !a.Rule.Watched() {
				continue
			}
			if h := held(a); h.State != penalty.Free {
				d.Never = append(d.Never, a.HeldBack(h, now))
				denied = true
			}
		}
	}
	if denied {
		d.Groups = nil
	}
}

// WhyHeld returns the reason of a denial of a client that is held back.
func (v *Verdict) WhyHeld() string {
	if v.Held == penalty.Blocked {
		until := time.Now().Add(v.Decision.RetryAfter).UTC().Format(time.RFC3339)
		return fmt.Sprintf("blocked in this region until %s by rule %s: denied %d times within %v", until, v.Rule.ID, v.Rule.AutoBlock.After, v.Rule.AutoBlock.Within)
	}
	return "cool-down of rule " + v.Rule.ID + ": requests came before the time that was told; wait as long as retry_after says"
}

// NeverFits reports whether a limit that can deny is too small for the request.
func (d *Decision) NeverFits() bool {
	return slices.ContainsFunc(d.Never, func(v Verdict) bool { return !v.Shadow })
}
