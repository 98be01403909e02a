package regional

import (
	"slices"
	"time"

	"aliquot/budget"
	"aliquot/internal/abuse"
	"aliquot/internal/recall"
	"aliquot/internal/rights"
	"aliquot/limit"
	"aliquot/regional/internal/modes"
	"aliquot/rules"
)

// ask is one limit of a request on its way to the store.
type ask struct {
	rule   *rules.Rule
	limit  limit.Limit
	window time.Duration // the time that the rule states its limit over
	cost   limit.Tokens  // in the unit that the rule counts
	// enforcement is one of rules.Strict, Elastic and Independent; empty is strict.
	enforcement string
	key         budget.KeyID
	right       budget.Right
	// ticket is the charge of the latest call that the ask was sent with. carried is the part of
	// the key's debt that this call carries. own is the ticket of a call that was given up and may
	// have been for this request.
	ticket  recall.Ticket
	carried recall.Debt
	own     *recall.Ticket
	// memory is the daemon's knowledge of the key's record, in case the store has lost it; nil if
	// it knows nothing.
	memory *limit.Memory
	// forgives is Rule.Forgives of an ask without a rule.
	forgives bool
	// changed is the change of the limit that is remembered, or nil. ruleSince is the time by the
	// store's clock from which on only the present limit applies.
	changed   *rights.Change
	ruleSince int64
	// slot names the slot that the request asks for at a concurrency limit. Each call to the store
	// gets a new name.
	slot uint64
	// lasts is for how long a reservation may hold the slot; 0 means as long as the rule allows.
	lasts time.Duration
	// override is the pattern of the override that set the limit, or empty.
	override string
	// floorCap is the floor's part of the capacity, and coldCap the whole contents of a full bucket
	// while the key is cold. Both are from the latest view.
	floorCap, coldCap limit.Tokens
	borrowing
}

// alone reports whether this region enforces the whole limit by itself. The budget protocol does
// not know such a key.
func (a *ask) alone() bool { return a.enforcement == rules.Independent }

// keyLimit returns the limit in the budget protocol's type.
func (a *ask) keyLimit() budget.KeyLimit {
	l := rights.KeyLimit(a.limit)
	if a.rule != nil {
		l.Placement = placementOf(a.rule)
	}
	return l
}

// placementOf returns a rule's placement in the budget protocol's type.
func placementOf(r *rules.Rule) budget.Placement {
	switch r.Placement {
	case rules.Split:
		return budget.PlacementSplit
	case rules.Home:
		return budget.PlacementHome
	default:
		return budget.PlacementAuto
	}
}

// passesBy reports whether the key has no record of its own in the store, which was full, and has
// not come often recently. The state found then describes the use of other keys. If each such key
// asked for a share, a flood of keys that come once would fill the table of hot keys in every
// coordinator. A key that comes often becomes hot and so gets a record of its own.
func (a *ask) passesBy(crowded []int, limit int) bool {
	return a.local == nil && slices.Contains(crowded, limit)
}

// timeToFull returns after what time the store's bucket is full, whatever the store is told.
func (a *ask) timeToFull() time.Duration {
	return rights.TimeToFull(a.right, a.limit, a.enforcement == rules.Elastic)
}

// HeldBack returns the verdict on a request of a client that is held back.
func (a *ask) heldBack(h abuse.Hold, now budget.Instant) verdict {
	mode, wait := modes.Local, h.Until.Sub(now)
	if h.State == abuse.Blocked {
		mode = modes.BlockList
	}
	v := a.verdict(&group{}, mode, limit.Decision{
		Limit: int64(a.limit.Capacity / limit.Token), RetryAfter: wait, ResetAfter: wait,
	})
	v.held = h.State
	return v
}

// verdict returns the verdict of d on the ask. Only a queue that admitted a request makes it wait.
// A leaky bucket that is a meter does not.
func (a *ask) verdict(g *group, mode string, d limit.Decision) verdict {
	if !a.rule.Queue || !g.allowed {
		d.Delay = 0
	}
	return verdict{rule: a.rule, window: a.window, cost: a.cost, shadow: g.shadow, mode: mode, key: a.key, limit: a.limit, decision: d}
}
