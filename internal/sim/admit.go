package sim

import (
	"fmt"

	"aliquot/limit"
)

// admit counts what a store admitted.
func (w *world) admit(r *rule, region int, amount limit.Tokens, slots []uint64) {
	w.admitted += int64(amount / limit.Token)
	r.got[region] += amount
	w.Note("admitted", region, int64(r.key.Rule), int64(amount/limit.Token), r.ideal.Left(), 0)
	if r.book != nil {
		r.ideal.Count(amount)
		w.admitCounted(r, region, amount, slots)
		return
	}
	if w.forgives(region) {
		return
	}
	if !r.ideal.Spend(amount, w.Now()) {
		w.violate("key %d: %d micro-tokens more admitted than %s + r(1+rho)t", r.key.Rule, -r.ideal.Left(), r.burst())
	}
}

func (w *world) violate(format string, args ...any) {
	if w.failure == nil {
		w.failure = &Violation{Seed: w.seed, At: duration(w.Now()), What: fmt.Sprintf(format, args...)}
	}
}

// admitCounted checks what a store admitted of a counting limit by the definition of the limit.
func (w *world) admitCounted(r *rule, region int, amount limit.Tokens, slots []uint64) {
	l := r.book.Limit()
	if sum := r.book.Admit(region, amount, slots); sum > l.Capacity {
		w.violate("key %d, %v: %d of %d micro-tokens in use", r.key.Rule, l.Algorithm, sum, l.Capacity)
	}
	if l.Algorithm == limit.FixedWindow && w.clocksAgree {
		if sum := r.book.InLabel(region, amount); sum > l.Capacity {
			w.violate("key %d: %d of %d micro-tokens in one window", r.key.Rule, sum, l.Capacity)
		}
	}
}

// hold keeps each slot for a while of its own. Some callers die with their slots.
func (r *rule) hold(region int, slots []uint64) {
	for _, slot := range slots {
		if r.w.Chance(1, 8) {
			continue
		}
		r.w.After(r.w.Between(milli, r.book.Lasts()), func() {
			r.book.Release(region, slot)
			r.w.After(r.w.storeDelay(region), func() { r.w.stores[region].release(r, slot) })
		})
	}
}

// nameSlots gives every requested slot a unique name.
func (w *world) nameSlots(views []limit.View) {
	for i := range views {
		if views[i].Algorithm == limit.Concurrency {
			w.slots++
			views[i].Slot = w.slots
		}
	}
}
