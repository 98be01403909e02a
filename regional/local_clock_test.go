package regional

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/chunk"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/rules"
)

// TestOutcomesAreInTheOrderOfTheirNodesClocks: a denial of a key is over with the next
// answer of the node that it stands on, though another key of the denied request stands on a
// node whose clock is ahead.
func TestOutcomesAreInTheOrderOfTheirNodesClocks(t *testing.T) {
	table := newLocalTable()
	asks := make([]ask, 2)
	for i := range asks {
		e := come(table, uint64(i), localWorth, noon)
		e.rule = &rules.Rule{}
		use(e, noon)
		asks[i] = ask{rule: e.rule, key: e.key, cost: limit.Token, borrowing: borrowing{local: e}}
	}
	call := func(now budget.Instant, storeNow int64, r lua.Result) {
		g := &group{asks: asks[:len(r.Limits)]}
		for i := range g.asks {
			a := &g.asks[i]
			a.asked, a.trip = a.local.chunk.Bring(a.cost, chunk.Terms{}, now)
			a.away = true
		}
		g.took(table, &r, storeNow, now)
	}
	const behind, ahead = 1_000_000, 1_090_000
	denied := limit.Outcome{Bucket: limit.Bucket{Cap: 10 * limit.Token, Rate: limit.Rate{Micro: 1}}}
	call(noon, ahead, lua.Result{Limits: []limit.Outcome{denied, denied}, Clocks: []int64{behind, ahead}})
	e := asks[0].local
	if e.chunk.Look(limit.Token, noon) != chunk.Denied {
		t.Fatal("the denial is not remembered")
	}
	later := noon.Add(10 * time.Millisecond)
	allowed := denied
	allowed.Tokens = 9 * limit.Token
	call(later, behind+10_000, lua.Result{Allowed: true, Limits: []limit.Outcome{allowed}})
	if e.chunk.Look(limit.Token, later) == chunk.Denied {
		t.Error("the denial is remembered, for the other node's clock is ahead")
	}
}
