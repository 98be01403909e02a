package site

import (
	"aliquot/budget"
	"aliquot/internal/recall"
	"aliquot/internal/sim/faults"
	"aliquot/internal/sim/rule"
	"aliquot/limit"
)

// Slots of concurrency limits: who holds them, and how they are given back. A holder gives a slot back to a
// daemon of the region, which releases it in the store. If the store does not answer, the daemon keeps the
// release, and tries again until it is made.

// newSlot returns the name of a slot, which no other one has.
func (w *Regions) newSlot() uint64 {
	w.slots++
	return w.slots
}

// nameSlots names the slots that a call asks for, all of them or those that have no name.
func (w *Regions) nameSlots(views []limit.View, all bool) {
	for i := range views {
		if v := &views[i]; v.Algorithm == limit.Concurrency && (all || v.Slot == 0) {
			v.Slot = w.newSlot()
		}
	}
}

// nameSlots names the slots of a request that is decided without the store. The one request of a call asks for
// the slots that the call has asked for.
func (c *takeCall) nameSlots(charges []recall.Charge) {
	for i := range charges {
		switch one := &charges[i]; {
		case one.Limit.Algorithm != limit.Concurrency:
		case c.tries == 1 && c.asks[i].view.Slot != 0:
			one.Slot = c.asks[i].view.Slot
		default:
			one.Slot = c.n.w.newSlot()
		}
	}
}

// slotsOf returns the slot of a charge; nil if its limit has none.
func slotsOf(c *recall.Charge) []uint64 {
	if c.Slot == 0 {
		return nil
	}
	return []uint64{c.Slot}
}

// hold keeps each slot for a while of its own. Some callers die with their slots.
func (n *Node) hold(r *rule.Rule, slots []uint64) {
	w := n.w
	for _, slot := range slots {
		if w.Chance(1, 8) {
			continue
		}
		until := w.Now() + r.Book.Lasts()
		w.After(w.Between(milli, r.Book.Lasts()), func() {
			r.Book.Release(n.Region, slot)
			(&release{n: n, rule: r, slot: slot, until: until}).begin()
		})
	}
}

// release is a slot that was given back.
type release struct {
	n     *Node // the daemon that gave it out
	rule  *rule.Rule
	slot  uint64
	until int64 // true time after which it does not matter

	ask      ask
	ticket   recall.Ticket
	epoch    string
	asked    budget.Instant
	sent     int64
	sampled  int64
	deadline int64
	adjusted limit.Adjusted
	storeNow int64
	over     bool // answered or given up
}

// begin tells a daemon of the region. After the end of the daemon that gave the slot out another one is told,
// which does not know the slot.
func (r *release) begin() {
	if r.n.Dead {
		if r.n = r.n.w.NodeOf(r.n.Region); r.n == nil {
			return
		}
	}
	r.n.When(r.send).Happen()
}

// send releases the slot in the store.
func (r *release) send() {
	n := r.n
	if !n.configured() || !r.rule.InForce(n.Version) {
		return
	}
	l := n.limitOf(r.rule)
	right := n.Machine.Right(r.rule.Key, r.rule.KeyLimit(l), n.Now())
	r.ask = ask{rule: r.rule, limit: l, right: right, view: n.view(right, r.rule, l)}
	a := &r.ask
	a.view.Slot = r.slot
	if n.epoch == "" || n.clockless() || n.storeCut() || !n.breaker.passes(n.w.Now()) {
		r.later()
		return
	}
	charge, named := n.charge(a, 0), n.identify(a)
	a.carried = n.recalled.Carry(&charge, n.recalled.Call(), n.Now())
	a.view.Debit, a.view.Held, a.view.Memory = a.carried.Amount, a.carried.Held, n.memory(a)
	n.recalled.Releasing(&r.ticket, &named, n.Now())
	r.epoch, r.asked, r.sent, r.sampled, r.deadline, r.over = n.epoch, n.Now(), n.w.Now(), n.sampled, n.takenUntil(), false
	n.w.Plan(n.w.storeDelay(n.Region), (*releasing)(r))
	n.w.Plan(takeDeadline, n.When(r.giveUp))
}

// releasing is a release on its way to the store.
type releasing release

// Happen handles the release at the store.
func (at *releasing) Happen() {
	r := (*release)(at)
	n, a := r.n, &r.ask
	s := n.w.Stores[n.Region]
	if n.w.Now() < s.pauseTo {
		n.w.Plan(s.pauseTo-n.w.Now(), at)
		return
	}
	if n.buried || s.outlived(r.sampled, r.sent, takeLate) || s.Time() > r.deadline || r.epoch != s.epoch || s.promoted() {
		return
	}
	v := a.view
	v.Heard = s.heardBy(&v)
	record, out := limit.Adjust(s.Get(r.rule), limit.Adjustment{View: v, Window: v.Window}, s.Time())
	s.write(a, record, &v)
	n.w.suspect(r.rule)
	if n.w.Faults.Strikes(faults.StuckStore, 200) {
		return
	}
	r.adjusted, r.storeNow = out, s.Time()
	n.w.Plan(n.w.Between(milli/20, milli), n.When(r.answer))
}

// answer handles the store's answer.
func (r *release) answer() {
	if r.over {
		return
	}
	r.over = true
	r.n.breaker.done(r.n.w.Now(), true)
	if r.epoch == r.n.epoch {
		r.n.sample(r.storeNow, r.asked, r.sent)
	}
	named := r.n.identify(&r.ask)
	r.n.recalled.Adjusted(&r.ticket, &named, r.adjusted.Tokens, r.adjusted.InUse, r.ask.carried, r.storeNow, r.n.Now())
}

// giveUp ends a call without an answer in time.
func (r *release) giveUp() {
	if r.over {
		return
	}
	r.over = true
	r.n.breaker.done(r.n.w.Now(), false)
	r.n.recalled.Paid(r.rule.Key, r.ask.carried, false)
	r.later()
}

// later keeps the release. Another request may have the slot from now on.
func (r *release) later() {
	n := r.n
	named := n.identify(&r.ask)
	n.recalled.Release(&named)
	if n.w.Now() >= r.until {
		return
	}
	again := *r // a call that is under way still has its own
	n.w.After(second, again.begin)
}
