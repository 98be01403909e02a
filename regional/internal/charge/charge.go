// Package charge has what a request is charged: its limits, their way to the store and back, and
// what this daemon holds of them in memory.
//
// Locks: the table's mutex is taken before those of its entries, and that of the list of active
// entries after them. Several entries are locked in the order of their numbers.
package charge

import (
	"slices"
	"time"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/internal/penalty"
	"aliquot/internal/recall"
	"aliquot/limit"
	"aliquot/regional/internal/modes"
	"aliquot/rules"
)

// Planned is the part of a charge that no call changes: what its request is charged, by the rules in force. It is
// set before the charge is sent or decided.
type Planned struct {
	Rule *rules.Rule
	// Rules are those that Limit belongs to. If they are not set, the limit is not told to the leader.
	Rules  budget.RulesState
	Limit  limit.Limit
	Window time.Duration // the time that the rule states its limit over
	Cost   limit.Tokens  // in the unit that the rule counts
	// Enforcement is one of rules.Strict, Elastic and Independent; empty is strict.
	Enforcement string
	Key         budget.KeyID
	// Forgives is Rule.Forgives of a charge without a rule.
	Forgives bool
	// Changed is the latest change of the limit, or nil.
	Changed *entitlement.Change
	// Slot is the name of the slot that the request wants from a concurrency limit; 0 until it has
	// one.
	Slot uint64
	// Lasts is how long a reservation may hold the slot; 0 means as long as the rule allows.
	Lasts time.Duration
	// Override is the pattern of the override that set the limit, or empty.
	Override string
}

// Charge is one limit of a request on its way to the store.
type Charge struct {
	Planned
	Right budget.Right
	// Ticket is the ticket of the latest call that carried this charge. Carried is the part of the
	// key's debt in that call; nil: none. PriorTicket is the ticket of an earlier call that was given up and
	// may have made this charge; nil if there was none.
	Ticket      recall.Ticket
	Carried     *recall.Debt
	PriorTicket *recall.Ticket
	// Memory is the daemon's knowledge of the key's record, in case the store has lost it; nil if
	// it knows nothing.
	Memory *limit.Memory
	// RuleSince is the time by the store's clock from which on only the present limit applies, if it has Changed.
	RuleSince int64
	// Held is what the daemon knows of the key, if its limit has Changed; nil if it knows nothing.
	Held *Held
	// Lent: other regions may hold what the right lacks, and would lend it. See budget.Region.Elsewhere.
	Lent bool
	// FloorCap is the floor's part of the capacity. ColdCap is the contents of a full bucket while
	// the key is cold. Both are from the latest view.
	FloorCap, ColdCap limit.Tokens
	Borrowing
}

// Held is what a bucket held at least, or what was in use at most of a counting limit, at an instant; see
// entitlement.Held.
type Held struct {
	Amount limit.Tokens
	At     budget.Instant
}

// Independent reports whether this region enforces the whole limit by itself. The budget protocol
// does not know such a key.
func (a *Charge) Independent() bool { return a.Enforcement == rules.Independent }

// Elastic reports whether a cold key has the whole burst in each region.
func (a *Charge) Elastic() bool { return a.Enforcement == rules.Elastic }

// KeyLimit returns the limit in the budget protocol's type.
func (a *Charge) KeyLimit() budget.KeyLimit {
	l := entitlement.KeyLimit(a.Limit)
	if a.Rule != nil {
		l.Placement = PlacementOf(a.Rule)
	}
	return l
}

// PlacementOf returns a rule's placement in the budget protocol's type.
func PlacementOf(r *rules.Rule) budget.Placement {
	switch r.Placement {
	case rules.Split:
		return budget.PlacementSplit
	case rules.Home:
		return budget.PlacementHome
	default:
		return budget.PlacementAuto
	}
}

// sharesRecord reports whether the store, which was full, keeps the key in a record that it shares
// with other keys, and the key is not frequent. The store's answer then describes the use of other
// keys, and the leader is not told of it: a flood of keys that come once would fill every
// coordinator's table of hot keys. A frequent key becomes hot, and so gets a record of its own.
func (a *Charge) sharesRecord(crowded []int, limit int) bool {
	return a.Local == nil && slices.Contains(crowded, limit)
}

// TimeToFull returns the time after which the store's bucket is certainly full.
func (a *Charge) TimeToFull() time.Duration {
	return entitlement.TimeToFull(a.Right, a.Limit, a.Elastic())
}

// HeldBack returns the verdict on a request of a client that is held back.
func (a *Charge) HeldBack(h penalty.Hold, now budget.Instant) Verdict {
	mode, wait := modes.Local, h.Until.Sub(now)
	if h.State == penalty.Blocked {
		mode = modes.BlockList
	}
	v := a.Verdict(&Transaction{}, mode, limit.Decision{
		Limit: int64(a.Limit.Capacity / limit.Token), RetryAfter: wait, ResetAfter: wait,
	})
	v.Held = h.State
	return v
}

// Verdict returns the verdict of d on the charge. Only a queue that admitted a request delays it. A
// leaky bucket that is a meter does not.
func (a *Charge) Verdict(g *Transaction, mode string, d limit.Decision) Verdict {
	if !a.Rule.Queue || !g.Allowed {
		d.Delay = 0
	}
	if a.Lent && mode == modes.Store {
		d = d.CapWait()
	}
	return Verdict{Rule: a.Rule, Window: a.Window, Cost: a.Cost, Shadow: g.Shadow, Mode: mode, Key: a.Key, Limit: a.Limit, Decision: d}
}
