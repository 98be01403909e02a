package rules

import (
	"slices"
	"time"

	"aliquot/limit"
	"aliquot/rules/document"
	"aliquot/rules/pattern"
)

// Addresses reports whether the rule applies to a descriptor of Envoy's rate limit protocol whose
// conditions it meets. A rule without conditions applies only if the descriptor has all attributes
// of its key. Otherwise descriptors about other things would share one bucket.
func (r *Rule) Addresses(attrs Attributes) bool {
	if len(r.conditions) > 0 {
		return true
	}
	for _, name := range r.Key {
		tier := name == document.TierAttribute && r.tiers != nil && r.tiers.of(&subject{attrs: attrs, path: pathOf(attrs.Get(document.EndpointAttribute))}) != ""
		if attrs.Get(name) == "" && !tier {
			return false
		}
	}
	return len(r.Key) > 0
}

// HasUnlimited reports whether a limit of the set is unlimited.
func (s *Set) HasUnlimited() bool { return s.unlimited }

// HasDebts reports whether a rule of the set has Debt.
func (s *Set) HasDebts() bool { return s.debts }

// ReplacesInRequest reports whether a rule of the set has ReplacesInRequest.
func (s *Set) ReplacesInRequest() bool { return s.inRequest }

// TakesLimits reports whether a rule of the set has RequestLimit.
func (s *Set) TakesLimits() bool { return s.takes }

// DeniesAll returns the id of a rule that denies every request; empty if there is none.
func (s *Set) DeniesAll() string {
	for _, r := range s.rules {
		all := !slices.ContainsFunc(r.conditions, func(c pattern.Condition) bool {
			return !slices.ContainsFunc(c.Values, func(m pattern.Matcher) bool { return m.Regex == nil && m.Glob && m.Text == "*" })
		})
		if all && r.Limit.Capacity == 0 && r.Unit == UnitRequests && r.ShadowPPM < document.WholePPM {
			return r.ID
		}
	}
	return ""
}

// LimitOf returns the rule's limit with other numbers: so many requests in each window. why says
// what is wrong with them for the rule's algorithm, or is "".
func (r *Rule) LimitOf(requests int64, window time.Duration) (l limit.Limit, why string) {
	p := document.Params{Limit: min(requests, document.MaxCapacity), Window: window, Denies: requests == 0}
	l, _, why = p.LimitFor(r.Algorithm)
	return l, why
}

// resolveInRequest finds the rules that other rules replace in a whole request.
func (d *draft) resolveInRequest(s *Set, texts []*document.Rule) {
	unknown := 0
	for i, text := range texts {
		r := s.rules[i]
		for _, ref := range text.InRequest {
			replaced := s.byID[ref.Name]
			switch {
			case replaced == nil:
				d.unknownRule("replaces_in_request", ref, r, s, unknown)
				unknown++
			case replaced == r:
				d.Add(ref.At, "%s cannot replace itself; name another rule or remove this", text)
			case r.ShadowPPM > 0 && replaced.ShadowPPM < document.WholePPM:
				// A trial of a rule must not change any answer.
			default:
				r.ReplacesInRequest = append(r.ReplacesInRequest, ref.Name)
			}
		}
	}
}
