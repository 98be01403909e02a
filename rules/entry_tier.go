package rules

import (
	"cmp"
	"fmt"
	"slices"

	"aliquot/limit"
	"aliquot/rules/document"
	"aliquot/rules/source"
)

// The value of a tier has precedence over the numbers that the file states for the tier and its
// rules. It applies to rules of the tier that count requests. Overrides have precedence over it.
//  - Limit: for a counting limit, its limit. For a bucket, that many requests in each
//    window of the rule, and the burst if Capacity is not stated.
//  - Capacity: the burst of a bucket. A counting limit has none and needs Limit.
//  - RefillRate: requests a second of a bucket; not together with Limit.
//  - Window: replaces the rule's window; together with Limit or Capacity.

// checkTier is CheckEntry for the value of a tier. The error is ErrNotThere if no rule names the
// tier and the file assigns no request to it. It is ErrBadEdit if the numbers make no sense for one
// of the tier's rules.
func (s *Set) checkTier(v *Entry) error {
	if !s.HasTier(v.Name) {
		if len(s.Tiers()) == 0 {
			return fmt.Errorf("%w: no rule names a tier, and the file assigns none", ErrNotThere)
		}
		return fmt.Errorf("%w: no rule names the tier %q, and the file assigns no request to it; %s", ErrNotThere, source.Shorten(v.Name), source.KnownHere(s.Tiers()))
	}
	if err := v.Check(); err != nil {
		return err
	}
	there, counts := false, false
	for _, r := range s.asInFile().rules {
		if r.Tier != v.Name {
			continue
		}
		there = true
		if r.Unit != UnitRequests {
			continue
		}
		counts = true
		if _, why := r.under(v); why != "" {
			return fmt.Errorf("%w: rule %s: %s", ErrBadEdit, r.ID, why)
		}
	}
	if there && !counts {
		return fmt.Errorf("%w: no rule of the tier %q counts requests, and only those have the value of a tier; change the file", ErrBadEdit, source.Shorten(v.Name))
	}
	return nil
}

// tierParams converts the numbers of a tier. why says what is wrong with them, or is "".
func (e *Entry) tierParams() (p document.Params, why string) {
	p, why = e.Read()
	switch {
	case why != "":
	case p.Limit != 0 && p.Rate != limit.Rate{}:
		why = "limit and refill_rate both state a rate; state one of them"
	case p.Limit == 0 && p.Capacity == 0 && p.Window != 0:
		why = "window alone states no limit; state limit beside it"
	}
	return p, why
}

// under returns the rule with the limit of its tier's value, or the reason why it has none.
func (r *Rule) under(e *Entry) (out *Rule, why string) {
	if r.Unit != UnitRequests {
		return nil, "it counts " + r.Unit + ", not requests"
	}
	stated, why := e.tierParams()
	if why != "" {
		return nil, why
	}
	p := r.params
	switch {
	case r.Limit.Algorithm.Counts():
		if stated.Limit == 0 {
			return nil, r.Algorithm + " has a limit and a window, no capacity or refill_rate; state limit"
		}
		p = document.Params{Limit: stated.Limit, Window: cmp.Or(stated.Window, p.Window)}
	default:
		p = stated.Over(p)
		if p.Limit != 0 && p.Window == 0 {
			p.Window = r.Window
		}
	}
	changed := *r
	if changed.Limit, changed.Window, why = p.LimitFor(r.Algorithm); why != "" {
		return nil, why
	}
	changed.SetForTier, changed.Unlimited, changed.params = true, p.Unlimited, p
	changed.overrides = slices.Clone(r.overrides)
	for i := range changed.overrides {
		o := &changed.overrides[i]
		own := o.params.Over(p)
		if l, window, why := own.LimitFor(r.Algorithm); why == "" {
			o.Limit, o.Window, o.Unlimited = l, window, own.Unlimited
		}
	}
	return &changed, ""
}
