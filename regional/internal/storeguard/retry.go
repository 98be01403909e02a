package storeguard

import "sync/atomic"

const (
	// retryCost is the number of calls that earn one retry: a tenth of the calls may be made twice.
	// So a store in trouble is not asked twice as much as a healthy one.
	retryCost = 10
	// retriesAtOnce is how many retries may be saved up: several times what all workers of a
	// batcher need when the contents of the store change.
	retriesAtOnce = 32
)

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
		if spent+retryCost > retriesAtOnce*retryCost {
			return false
		}
		if b.spent.CompareAndSwap(spent, spent+retryCost) {
			return true
		}
	}
}
