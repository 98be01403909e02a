package rules

import (
	"slices"

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

// SameLimits reports whether two versions of the rules limit every key alike: they have the same rules
// on the same records, with the same enforcement and the same limits. nil has no rules.
func SameLimits(a, b *Set) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.EqualFunc(a.rules, b.rules, func(before, after *Rule) bool {
		return before == after || before.ID == after.ID && before.Unlimited == after.Unlimited && before.Enforcement == after.Enforcement &&
			before.RequestLimit == after.RequestLimit && before.SameLimits(after) && len(recordChanges(before, after)) == 0
	})
}
