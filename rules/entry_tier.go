package rules

import (
	"cmp"
	"fmt"
	"slices"

	"aliquot/limit"
)

// The value of a tier stands above the numbers that the file states for the tier and its rules.
// It holds for rules of the tier that count requests; overrides stay above it.
//   - Limit: for a limit that counts, its limit; for a bucket, as many requests in each
//     window of the rule, and the burst where Capacity is not stated.
//   - Capacity: the burst of a bucket. A limit that counts has none and takes Limit.
//   - RefillRate: requests a second of a bucket; not beside Limit.
//   - Window: in place of the rule's, beside Limit or Capacity.

// checkTier is CheckEntry of the value of a tier: ErrNotThere if no rule names the tier and
// the file assigns no request to it, ErrBadEdit if its numbers make no sense for a rule that it
// is to hold for.
func (s *Set) checkTier(v *Entry) error {
	if !s.HasTier(v.Name) {
		if len(s.Tiers()) == 0 {
			return fmt.Errorf("%w: no rule names a tier, and the file assigns none", ErrNotThere)
		}
		return fmt.Errorf("%w: no rule names the tier %q, and the file assigns no request to it; %s", ErrNotThere, shorten(v.Name), knownHere(s.Tiers()))
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
		return fmt.Errorf("%w: no rule of the tier %q counts requests, and only those have the value of a tier; change the file", ErrBadEdit, shorten(v.Name))
	}
	return nil
}

// tierParams reads the numbers of a tier; why says what is wrong with them.
func (e *Entry) tierParams() (p params, why string) {
	p, why = e.read()
	switch {
	case why != "":
	case p.limit != 0 && p.rate != limit.Rate{}:
		why = "limit and refill_rate both state a rate; state one of them"
	case p.limit == 0 && p.capacity == 0 && p.window != 0:
		why = "window alone states no limit; state limit beside it"
	}
	return p, why
}

// under returns the rule with the limit of its tier's value, or why it has none.
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
		if stated.limit == 0 {
			return nil, r.Algorithm + " has a limit and a window, no capacity or refill_rate; state limit"
		}
		p = params{limit: stated.limit, window: cmp.Or(stated.window, p.window)}
	default:
		p = stated.over(p)
		if p.limit != 0 && p.window == 0 {
			p.window = r.Window
		}
	}
	changed := *r
	if changed.Limit, changed.Window, why = p.under(r.Algorithm); why != "" {
		return nil, why
	}
	changed.SetForTier, changed.Unlimited, changed.params = true, p.unlimited, p
	changed.overrides = slices.Clone(r.overrides)
	for i := range changed.overrides {
		o := &changed.overrides[i]
		own := o.params.over(p)
		if l, window, why := own.under(r.Algorithm); why == "" {
			o.Limit, o.Window, o.Unlimited = l, window, own.unlimited
		}
	}
	return &changed, ""
}
