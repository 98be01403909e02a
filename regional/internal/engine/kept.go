package engine

import (
	"slices"

	"aliquot/regional/internal/charge"
)

// A key at its limit may be denied from memory a hundred thousand times a second. Each denial has
// an id. The denials of one key within a chunk's life share one id, and the first of them is the
// one that is remembered.

// Kept returns a copy of the decision that can be kept. It adds the rights of the limits to a
// decision made from memory, and refers to no memory that is used again.
func (l *Engine) Kept(d *charge.Decision) charge.Decision {
	kept := *d
	kept.Denier, kept.CachedVerdicts = nil, nil
	if d.CachedVerdicts == nil {
		return kept
	}
	for i := range d.CachedVerdicts {
		v := &d.CachedVerdicts[i]
		a := charge.Charge{
			Rule: v.Rule, Limit: v.Limit, Window: v.Window, Cost: v.Cost, Enforcement: v.Rule.Enforcement, Key: v.Key,
		}
		kept.Order = append(kept.Order, v.Rule)
		kept.Groups = append(kept.Groups, &charge.Transaction{
			Cost: v.Cost, Shadow: v.Shadow, Charges: []charge.Charge{a}, Allowed: v.Decision.Allowed, Out: slices.Clone(d.CachedVerdicts[i : i+1]),
		})
	}
	l.Auth.Grant(kept.Groups)
	return kept
}
