package rules

import (
	"aliquot/limit"
	"aliquot/rules/pattern"
)

// Former returns a rule that has only its limits: Limit and those of overrides, in the order of
// their precedence. It stands for a rule of an earlier version, of which only LimitFor matters.
func Former(l limit.Limit, overrides []Override) *Rule {
	return &Rule{Limit: l, overrides: overrides, patterns: pattern.NewSet(heldBy(overrides))}
}

// SameLimits reports whether two rules have the same limits for every API key at any time.
func (r *Rule) SameLimits(other *Rule) bool {
	if r.Limit != other.Limit || len(r.overrides) != len(other.overrides) {
		return false
	}
	for i := range r.overrides {
		a, b := &r.overrides[i], &other.overrides[i]
		if a.Pattern != b.Pattern || a.Limit != b.Limit || a.UntilMS != b.UntilMS {
			return false
		}
	}
	return true
}
