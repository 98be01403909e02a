package regional

import (
	"slices"
)

// A key at its limit may be denied from memory a hundred thousand times a second. Each denial has
// an id. The denials of one key within a chunk's life share one id, and the first of them is the
// one that is remembered.

// remembered returns a copy of the decision that can be kept. It adds the rights of the limits to a
// decision made from memory, and refers to no memory that is used again.
func (d *decision) remembered(auth *authority) decision {
	kept := *d
	kept.denier, kept.all = nil, nil
	if d.all == nil {
		return kept
	}
	for i := range d.all {
		v := &d.all[i]
		a := ask{
			rule: v.rule, limit: v.limit, window: v.window, cost: v.cost, enforcement: v.rule.Enforcement, key: v.key,
		}
		kept.order = append(kept.order, v.rule)
		kept.groups = append(kept.groups, &group{
			cost: v.cost, shadow: v.shadow, asks: []ask{a}, allowed: v.decision.Allowed, out: slices.Clone(d.all[i : i+1]),
		})
	}
	auth.grant(kept.groups)
	return kept
}
