package regional

import (
	"slices"

	"aliquot/budget"
	"aliquot/internal/chunk"
)

// A key at its limit may be denied from memory a hundred thousand times a second. Each denial has
// an id. The denials of one key within a chunk's life share one id, and the first of them is the
// one that is remembered.

// named returns the id of an earlier denial of the key that also stands for a denial at now; empty
// if there is none.
func (e *localEntry) named(now budget.Instant) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.denial == "" || now.Sub(e.deniedAt) >= chunk.Life {
		return ""
	}
	return e.denial
}

func (e *localEntry) rememberDenial(denial string, now budget.Instant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.denial, e.deniedAt = denial, now
}

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
