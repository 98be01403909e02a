package sim

import (
	"fmt"

	"aliquot/internal/sim/rule"
	"aliquot/limit"
)

// admit counts what a store admitted.
func (w *world) admit(r *rule.Rule, region int, amount limit.Tokens, slots []uint64) {
	w.admitted += int64(amount / limit.Token)
	r.Got[region] += amount
	w.Note("admitted", region, int64(r.Key.Rule), int64(amount/limit.Token), r.Ideal.Left(), 0)
	if r.Book != nil {
		r.Ideal.Count(amount)
		w.admitCounted(r, region, amount, slots)
		return
	}
	if w.forgives(region) {
		return
	}
	if !r.Ideal.Spend(amount, w.Now()) {
		w.violate("key %d: %d micro-tokens more admitted than %s + r(1+rho)t", r.Key.Rule, -r.Ideal.Left(), r.Burst())
	}
}

func (w *world) violate(format string, args ...any) {
	if w.failure == nil {
		w.failure = &Violation{Seed: w.seed, At: duration(w.Now()), What: fmt.Sprintf(format, args...)}
	}
}

// admitCounted checks what a store admitted of a counting limit by the definition of the limit.
func (w *world) admitCounted(r *rule.Rule, region int, amount limit.Tokens, slots []uint64) {
	l := r.Book.Limit()
	if sum := r.Book.Admit(region, amount, slots); sum > l.Capacity {
		w.violate("key %d, %v: %d of %d micro-tokens in use", r.Key.Rule, l.Algorithm, sum, l.Capacity)
	}
	if l.Algorithm == limit.FixedWindow && w.clocksAgree {
		if sum := r.Book.InLabel(region, amount); sum > l.Capacity {
			w.violate("key %d: %d of %d micro-tokens in one window", r.Key.Rule, sum, l.Capacity)
		}
	}
}

// hold keeps each slot for a while of its own. Some callers die with their slots.
func (w *world) hold(r *rule.Rule, region int, slots []uint64) {
	for _, slot := range slots {
		if w.Chance(1, 8) {
			continue
		}
		w.After(w.Between(milli, r.Book.Lasts()), func() {
			r.Book.Release(region, slot)
			w.After(w.storeDelay(region), func() { w.stores[region].release(r, slot) })
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
