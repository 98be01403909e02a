package site

import (
	"slices"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/internal/recall"
	"aliquot/internal/sim/faults"
	"aliquot/internal/sim/rule"
	"aliquot/limit"
)

// recalledKeys is above the number of keys of any world. What a full table drops is tested in
// package recall.
const recalledKeys = 1000

// decideAlone decides by what the daemon remembers of its store, like a rule with on_redis_failure:
// local. The store may still decide the call, if it was sent.
func (c *takeCall) decideAlone() {
	if c.gone {
		return
	}
	c.gone = true
	n := c.n
	if c.errand {
		return
	}
	if c.watched && n.w.Faults.Strikes(faults.StuckStore, 2) {
		// The daemon learns first what becomes of the call.
		n.w.Plan(n.w.Between(0, takeDeadline), n.When(c.decideNow))
		return
	}
	c.decideNow()
}

// decideNow decides by the memory as it is now.
func (c *takeCall) decideNow() {
	if charges := c.chargesAlone(); charges != nil {
		c.fromMemory(charges, true)
	}
}

// fromMemory decides the call's requests by the memory until it denies one, and returns how many it has admitted. final: it
// is not for the store to admit the others.
func (c *takeCall) fromMemory(charges []recall.Charge, final bool) int {
	n, asks := c.n, c.n.alone
	for try := range c.tries {
		c.nameSlots(charges)
		out := make([]limit.Outcome, len(asks))
		admitted := n.recalled.Decide(charges, false, n.Now(), out)
		if !admitted && !final {
			return try
		}
		n.w.Decisions++
		for i := range asks {
			a := &asks[i]
			if admitted {
				n.w.emergencies++
				n.w.Note("without the store", n.Region, int64(a.rule.Key.Rule), int64(n.Name), int64(n.recalled.Owed(a.rule.Key, n.Now())), 0)
				slots := slotsOf(&charges[i])
				if !c.given {
					n.w.above.Admit(a.rule, n.Region, c.cost, slots)
					a.rule.Book.Unstored(n.Region, c.cost)
				}
				n.hold(a.rule, slots)
			}
			if a.right.Hot && (admitted || out[i].Tokens < c.cost) {
				n.Machine.Observe(a.rule.Key, budget.Usage{
					Rules: a.rules, Limit: a.rule.KeyLimit(a.limit), Cost: int64(c.cost), Admitted: admitted, Tokens: int64(out[i].Tokens),
				}, n.Now())
			}
		}
		if !admitted {
			return try
		}
		if c.tries == 1 {
			c.given = true
		}
	}
	return c.tries
}

// chargesAlone returns what the call would charge of the memory; nil: another daemon may spend through the store, or
// the floor may be lent.
func (c *takeCall) chargesAlone() []recall.Charge {
	n := c.n
	if n.holdsBack() || n.beside || n.left || !n.isAlone() {
		return nil
	}
	n.alone = n.asks(n.alone, c.rules) // by what it may spend now
	charges := make([]recall.Charge, len(n.alone))
	for i := range n.alone {
		if r := n.alone[i].right; r.Blind && r.Phase != budget.CutOff {
			return nil
		}
		charges[i] = n.charge(&n.alone[i], c.cost)
		if c.tries == 1 {
			charges[i].Own = &c.asks[i].ticket
		}
	}
	return charges
}

// decideSettling decides from memory what it can while a call under way carries what one of the keys owes, and reports
// whether nothing is left to ask. A call for the rest carries the debt as well.
func (c *takeCall) decideSettling() bool {
	n := c.n
	if !slices.ContainsFunc(c.rules, func(r *rule.Rule) bool { return n.recalled.Settling(r.Key) }) {
		return false
	}
	charges := c.chargesAlone()
	if charges == nil {
		return false
	}
	if admitted := c.fromMemory(charges, false); admitted > 0 {
		c.tries -= admitted
		c.here = append(c.here, Admission{N: admitted, At: duration(n.w.Now())})
	}
	return c.tries == 0
}

// charge returns what an ask costs its key, with what the region may hold of the key without the
// store.
func (n *Node) charge(a *ask, cost limit.Tokens) recall.Charge {
	least, most := entitlement.Room(a.right, a.limit, a.rule.Elastic)
	clock, old := n.clockMap, n.clockMap.Until(n.Now()) == 0
	if old {
		clock = n.oldClock
	}
	c := recall.Charge{
		OldClock: old,
		Room:     recall.Room{Least: least, Most: most}, Key: a.rule.Key, Limit: a.limit, Cost: cost,
		Bucket: entitlement.WithoutStore(a.right, a.limit, a.rule.Elastic, int64(n.Machine.Config().RhoPPM)),
		Full:   entitlement.TimeToFull(a.right, a.limit, a.rule.Elastic),
		From:   max(entitlement.OwnSince(a.right), n.aloneSince), StoreNow: clock.Until(n.Now()), StoreLatest: clock.Since(n.Now()),
		RhoPPM: int64(n.Machine.Config().RhoPPM), Lasts: a.limit.Window,
	}
	if changed := n.changeOf(a.rule, a.limit); changed != nil {
		c.Former, c.Revised, c.SlowUntil = entitlement.FormerWithoutStore(a.right, *changed, a.rule.Elastic, c.RhoPPM)
	}
	return c
}

// memory returns what the store must be told of an ask's key, in case it has lost the record with
// other contents.
func (n *Node) memory(a *ask) *limit.Memory {
	if !a.rule.Forgives && !n.recalled.Remembers() {
		return nil
	}
	c := n.charge(a, 0)
	c.Forgives, c.Birth = a.rule.Forgives, n.birth
	c.Extra = a.right.Hot && a.rule.Elastic
	c.Foreign = n.isForeign(a)
	return n.recalled.Memory(&c, n.Now())
}

// tellHeld adds to an ask's view what the daemon knows of a key whose limit has changed.
func (n *Node) tellHeld(a *ask) {
	changed := n.changeOf(a.rule, a.limit)
	if changed == nil || a.view.RuleSince == 0 {
		return
	}
	c := n.charge(a, 0)
	c.Foreign = n.isForeign(a)
	if held, known := n.recalled.Held(&c, n.Now()); known {
		entitlement.Held(&a.view, *changed, held, n.Now())
	}
}

// isForeign reports whether another daemon may spend of an ask's key by the store.
func (n *Node) isForeign(a *ask) bool {
	return n.beside || !n.isAlone() || a.right.Blind && a.right.Phase != budget.CutOff
}

// charged charges the call, which leaves now, and lets it carry what its keys owe.
func (c *takeCall) charged() {
	n := c.n
	number := n.recalled.Call()
	for i := range c.asks {
		a := &c.asks[i]
		cost := limit.Tokens(c.tries) * c.cost
		if c.errand {
			cost = 0
		}
		charge := n.charge(a, cost)
		a.carried = n.recalled.Carry(&charge, number, n.Now())
		a.view.Debit, a.view.Held, a.view.Memory = a.carried.Amount, a.carried.Held, n.memory(a)
		n.tellHeld(a)
		if a.limit.Algorithm == limit.Concurrency && c.tries == 1 {
			a.view.Slot = n.w.newSlot()
		}
		charge.Borrows = a.view.Chunk.Want > 0
		n.recalled.Sent(&a.ticket, &charge, n.Now())
	}
}

// settled applies the store's answer to the memory, before anything else uses it.
func (c *takeCall) settled(rep *taken) {
	last := rep.try(rep.tried() - 1)
	for i := range c.asks {
		a := &c.asks[i]
		charge := c.n.identify(a)
		if c.tries == 1 && !c.errand {
			charge.Cost = c.cost
		}
		c.n.recalled.Answered(&a.ticket, &charge, rep.admitted == c.tries, last[i], a.carried, rep.time, c.n.Now())
		a.spent = c.n.recalled.Borrowed(&a.ticket, &charge, &a.view.Chunk, &rep.try(0)[i], rep.time, c.n.Now())
	}
}

// ended ends the call without an answer. nothing: the store has decided nothing; otherwise it may
// still decide.
func (c *takeCall) ended(nothing bool) {
	for i := range c.asks {
		a := &c.asks[i]
		charge := c.n.identify(a)
		if c.n.recalled.Paid(a.rule.Key, a.carried, false); nothing {
			c.n.recalled.NotSent(&a.ticket, &charge)
		} else {
			c.n.recalled.Lost(&a.ticket, &charge, c.sent+budget.Instant(takeLate))
		}
		a.carried = recall.Debt{}
	}
}

// identify returns the charge that identifies an ask's key and slot to the table.
func (n *Node) identify(a *ask) recall.Charge {
	return recall.Charge{
		Key: a.rule.Key, Limit: a.limit, Slot: a.view.Slot, Lasts: a.limit.Window, RhoPPM: int64(n.Machine.Config().RhoPPM),
	}
}
