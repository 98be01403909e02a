package engine

import (
	"slices"

	"aliquot/regional/internal/charge"
)

// Detach returns a copy of the decision that refers to no memory that is used again, so that it can
// be remembered. To a decision from memory it adds the present rights of the limits.
func (l *Engine) Detach(d *charge.Decision) charge.Decision {
	kept := *d
	kept.Denier, kept.CachedVerdicts = nil, nil
	if d.CachedVerdicts == nil {
		return kept
	}
	for i := range d.CachedVerdicts {
		v := &d.CachedVerdicts[i]
		a := charge.Charge{Planned: charge.Planned{
			Rule: v.Rule, Limit: v.Limit, Window: v.Window, Cost: v.Cost, Enforcement: v.Rule.Enforcement, Key: v.Key,
		}}
		kept.Order = append(kept.Order, v.Rule)
		kept.Groups = append(kept.Groups, &charge.Transaction{
			Cost: v.Cost, Shadow: v.Shadow, Charges: []charge.Charge{a}, Allowed: v.Decision.Allowed, Out: slices.Clone(d.CachedVerdicts[i : i+1]),
		})
	}
	l.Auth.Grant(kept.Groups)
	return kept
}
