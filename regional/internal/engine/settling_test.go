package engine

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

// TestChecksBesideADebtAreNotRefusedByMemory: a call is under way that carries a debt, and 40 checks of 600 come. Memory
// holds 992, the store has enough for all. Memory admits one and refuses none.
func TestChecksBesideADebtAreNotRefusedByMemory(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			store := &debtStore{}
			began := time.Now()
			l := limiterBefore(t, store, "e1", func() budget.Instant {
				if rand.IntN(3) == 0 {
					runtime.Gosched() // to another check, wherever the clock is read
				}
				return budget.Instant(100*time.Second) + budget.Instant(time.Since(began))
			}, strictRule(1_000_000, 1_000_000, ""))
			owes(t, l, store, 7)
			store.takes = 10 * time.Millisecond
			var all sync.WaitGroup
			all.Go(func() { passes(t, l, 1) })
			<-time.After(time.Millisecond)
			for range 40 {
				all.Go(func() {
					check := asked("k")
					check[0].Cost = 600 * limit.Token
					out, err := l.Decide(t.Context(), check)
					if err != nil {
						t.Error(err)
						return
					}
					if _, v := out[0].Verdicts(); !v.Decision.Allowed {
						t.Errorf("refused by mode %s", v.Mode)
					}
				})
			}
			all.Wait()
			<-time.After(time.Minute) // until what the engine does in the background has ended
		})
	}
}
