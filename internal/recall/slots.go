package recall

import (
	"slices"

	"aliquot/budget"
	"aliquot/limit"
)

// Slots of a concurrency limit are given out here under names, which the next call of the key tells the
// store. The store enters each name once. So it does not matter how many calls carry a name, nor what
// became of them, and a slot is released by its name wherever it is known.
//
// In use of a key are, at most:
//
//   - what the store reported, until none of those slots can be in use any more;
//   - the slots that were given out here and that the store is not known to have;
//   - the calls in flight, and those whose result is unknown.
//
// A slot that is given back while the store does not answer is free at once. Nobody else can have
// counted on it: the store's record still has it, and no other daemon spends for the region.
//
// Worked number: of 4 slots the store reported 3 in use. One is given out here, and none is left. Its
// holder gives it back, and so does the holder of one that the store has: 2 are left. If both are given
// out again, the next call of the key carries two names. Until the slot that was given back is released
// in the store, its record shows 5 in use, though no more than 4 are.

// slot is one slot that was given out here, or one that this daemon took in the store.
type slot struct {
	name uint64
	cost limit.Tokens
	// until is when it has ended, by this daemon's clock (given out here), or by the store's clock, in
	// microseconds (taken in the store).
	until budget.Instant
	// open is until when a store of several servers may release a slot that was given out here, also after a
	// call has entered it; see Charge.openUntil.
	open budget.Instant
}

// maxOwn bounds the slots that the table remembers to be taken in the store. A slot beyond it counts
// until its end, or until the store says that it is free.
const maxOwn = 32 << 10

// lasting returns for how long, by this daemon's clock, a slot of a limit may be in use.
func lasting(c *Charge) budget.Instant { return slower(budget.Instant(c.Limit.Window), c) }

// slower returns a time by one clock that is at least as long as one by another clock.
func slower(d budget.Instant, c *Charge) budget.Instant {
	const million = 1_000_000
	return d + d/million*budget.Instant(c.RhoPPM) + (d%million*budget.Instant(c.RhoPPM)+million-1)/million
}

// give records a slot that was given out here.
func (t *Table) give(c *Charge, now budget.Instant) {
	lasts := budget.Instant(c.Limit.Window)
	if c.Lasts > 0 {
		lasts = min(lasts, budget.Instant(c.Lasts))
	}
	d := t.debtOf(c.Key)
	if c.Slot == 0 { // it cannot be named, so it is owed as an amount
		d.total, d.full = d.total+c.Cost, max(d.full, now+slower(lasts, c))
		return
	}
	d.ended(now)
	d.slots = append(d.slots, slot{name: c.Slot, cost: c.Cost, until: now + slower(lasts, c), open: c.openUntil()})
}

// ended drops the slots that have ended.
func (d *debt) ended(now budget.Instant) {
	d.slots = slices.DeleteFunc(d.slots, func(s slot) bool { return s.until <= now })
}

// dropSlot drops a slot that was given out here. It reports whether there was one.
func (d *debt) dropSlot(name uint64) bool {
	before := len(d.slots)
	d.slots = slices.DeleteFunc(d.slots, func(s slot) bool { return s.name == name })
	return len(d.slots) < before
}

// openUntil returns until when a store of several servers may release the slot that a charge asks for by
// itself: a call that asked for it was sent, and may be denied by another limit.
func (c *Charge) openUntil() budget.Instant {
	if !c.Spread || c.Own == nil || c.Own.state == unsent {
		return 0
	}
	return c.Own.sent.Add(LateAtMost)
}

// held returns what the slots that were given out here cost together.
func (d *debt) held(now budget.Instant) (sum limit.Tokens) {
	for _, s := range d.slots {
		if s.until > now {
			sum += s.cost
		}
	}
	return sum
}

// slotsLeft returns how many slots are left of rights.
func (t *Table) slotsLeft(c *Charge, e *entry, rights limit.Tokens, now budget.Instant) limit.Tokens {
	used := t.pending(c, e)
	if now < e.lentUntil {
		used += limit.Tokens(e.basis)
	}
	if d := t.debt[c.Key]; d != nil {
		used += d.held(now) + d.total - d.paid
	}
	return max(0, rights-used)
}

// carrySlots is Carry for slots.
func (t *Table) carrySlots(d *debt, c *Charge, call uint64, now budget.Instant) Debt {
	d.ended(now)
	if t.settle(c.Key, d); len(d.slots) == 0 && d.total == d.paid {
		return Debt{}
	}
	d.carrier, d.carried, d.mark = call, d.carried+1, t.nextMark()
	out := Debt{Amount: min(d.total-d.paid, limit.MaxExact), upTo: d.total, voided: t.voided}
	for _, s := range d.slots[:min(len(d.slots), limit.MaxEntries)] {
		lasts := (slower(s.until-now, c) + 999) / 1000
		out.Held = append(out.Held, limit.HeldSlot{Slot: s.name, Cost: s.cost, Lasts: int64(lasts)})
		if now <= s.open {
			out.open = append(out.open, s.name)
		}
	}
	return out
}

// entered drops slots that the store has. It keeps those that the store may release by itself.
func (d *debt) entered(held []limit.HeldSlot, open []uint64) {
	if len(held) == 0 {
		return
	}
	names := make(map[uint64]bool, len(held))
	for _, s := range held {
		names[s.Slot] = true
	}
	for _, name := range open {
		delete(names, name)
	}
	d.slots = slices.DeleteFunc(d.slots, func(s slot) bool { return names[s.name] })
}

// reported records until when slots may be in use that the store has just reported. A rule that has a
// shorter window now does not shorten those that were taken before.
func (e *entry) reported(c *Charge, now budget.Instant) {
	if c.Limit.Algorithm == limit.Concurrency {
		e.lentUntil = max(e.lentUntil, now+lasting(c))
	}
}

// took remembers a slot that the store gave to a reservation of this daemon, at stamp of its clock.
func (t *Table) took(c *Charge, stamp int64) {
	if c.Slot == 0 || c.Lasts == 0 || c.Cost == 0 {
		return
	}
	if t.owns >= maxOwn && stamp >= t.sweepAt {
		t.sweepAt = stamp + 1_000_000
		for key := range t.own {
			t.disownEnded(key, stamp)
		}
	}
	if t.owns >= maxOwn {
		return
	}
	lasts := min(c.Lasts, c.Limit.Window).Microseconds()
	t.own[c.Key] = append(t.own[c.Key], slot{name: c.Slot, cost: c.Cost, until: budget.Instant(stamp + lasts)})
	t.owns++
}

// disown drops slots of a key that this daemon took in the store.
func (t *Table) disown(key budget.KeyID, drop func(slot) bool) (dropped slot, found bool) {
	all := t.own[key]
	if len(all) == 0 {
		return slot{}, false
	}
	rest := slices.DeleteFunc(all, func(s slot) bool {
		if !drop(s) {
			return false
		}
		dropped, found = s, true
		return true
	})
	t.owns -= len(all) - len(rest)
	if t.own[key] = rest; len(rest) == 0 {
		delete(t.own, key)
	}
	return dropped, found
}

// disownEnded drops what has ended by the store's clock.
func (t *Table) disownEnded(key budget.KeyID, stamp int64) {
	t.disown(key, func(s slot) bool { return int64(s.until) <= stamp })
}

// Disown drops all slots that this daemon took in the store: it is not known any more which of them are
// among those that are in use, because another daemon may have released them, or the contents are lost.
func (t *Table) Disown() {
	clear(t.own)
	t.owns = 0
}

// Release records that the holder of a slot has given it back, which the store will be told later. It
// reads the charge's key, limit and slot. It reports whether the slot was known, so that another one may
// be given out for it.
func (t *Table) Release(c *Charge) bool {
	if d := t.debt[c.Key]; d != nil && d.dropSlot(c.Slot) {
		t.settle(c.Key, d)
		return true
	}
	s, found := t.disown(c.Key, func(s slot) bool { return s.name == c.Slot })
	e, known := t.keys.get(c.Key)
	if !found || !known || e.unknown() || int64(s.until) <= e.stamp {
		return false
	}
	freed := min(s.cost, limit.Tokens(e.basis))
	e.basis, e.left = e.basis-int64(freed), e.left+freed
	t.keys.put(c.Key, e)
	return true
}

// Releasing records that a call leaves now that releases a slot in the store. It reads the charge's key
// and slot. If there is no answer it is not known whether the slot is among those in use, so from now on
// Release does not know it. The ticket is for Adjusted.
func (t *Table) Releasing(k *Ticket, c *Charge, now budget.Instant) {
	*k = Ticket{voided: t.voided, sent: now}
	t.disown(c.Key, func(s slot) bool { return s.name == c.Slot })
	if d := t.debt[c.Key]; d != nil {
		d.dropSlot(c.Slot)
		t.settle(c.Key, d)
	}
}
