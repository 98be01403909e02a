package storeguard

import "sync/atomic"

// retryBudget bounds the calls to the store that are repeated after an answer that decided nothing.
// The zero value is full. Safe for concurrent use.
type retryBudget struct{ spent atomic.Int64 }

// Called counts a call, which earns a part of a retry.
func (b *retryBudget) Called() {
	for {
		spent := b.spent.Load()
		if spent == 0 || b.spent.CompareAndSwap(spent, spent-1) {
			return
		}
	}
}

// Retry takes one retry from the budget, and reports whether there was one.
func (b *retryBudget) Retry() bool {
	for {
		spent := b.spent.Load()
		if spent+retryCost > maxRetriesSaved*retryCost {
			return false
		}
		if b.spent.CompareAndSwap(spent, spent+retryCost) {
			return true
		}
	}
}
