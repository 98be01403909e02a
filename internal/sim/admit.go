package sim

import (
	"fmt"

	"aliquot/internal/sim/rule"
	"aliquot/limit"
)

// Admit counts what a store admitted.
func (w *world) Admit(r *rule.Rule, region int, amount limit.Tokens, slots []uint64) {
	w.admitted += int64(amount / limit.Token)
	r.Got[region] += amount
	w.Note("admitted", region, int64(r.Key.Rule), int64(amount/limit.Token), r.Ideal.Left(), 0)
	if r.Book != nil {
		r.Ideal.Count(amount)
		w.admitCounted(r, region, amount, slots)
		return
	}
	if w.Forgives(region) {
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
	algorithm, capacity := r.Book.Algorithm(), r.Book.Capacity()
	if sum := r.Book.Admit(region, amount, slots); sum > capacity {
		w.violate("key %d, %v: %d of %d micro-tokens in use", r.Key.Rule, algorithm, sum, capacity)
	}
	if algorithm == limit.FixedWindow && w.ClocksAgree {
		if sum := r.Book.InLabel(region, amount); sum > capacity {
			w.violate("key %d: %d of %d micro-tokens in one window", r.Key.Rule, sum, capacity)
		}
	}
}
