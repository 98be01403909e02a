package regional

import "sync/atomic"

const (
	// A retry costs what retryCost calls earn: a tenth of the calls may be made twice, so
	// that a store in trouble is not asked twice as much as a healthy one.
	retryCost = 10
	// retriesAtOnce is what may be earned ahead: what every worker of a batcher needs when
	// the contents change, several times over.
	retriesAtOnce = 32
)

// retryBudget bounds the calls of the store that are made again after another answer than
// was hoped for. The zero value is full. Safe for concurrent use.
type retryBudget struct{ spent atomic.Int64 }

// called counts a call.
func (b *retryBudget) called() {
	for {
		spent := b.spent.Load()
		if spent == 0 || b.spent.CompareAndSwap(spent, spent-1) {
			return
		}
	}
}

// retry asks for one retry.
func (b *retryBudget) retry() bool {
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
