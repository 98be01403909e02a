package charge_test

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/prefetch"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/charge/chargetest"
	"aliquot/rules"
)

// TestOutcomesAreInTheOrderOfTheirNodesClocks: a denial of a key is over with the next
// answer of the node that it stands on, though another key of the denied request stands on a
// node whose clock is ahead.
func TestOutcomesAreInTheOrderOfTheirNodesClocks(t *testing.T) {
	table := charge.NewTable()
	asks := make([]charge.Charge, 2)
	for i := range asks {
		e := chargetest.Arrive(table, uint64(i), charge.AdmitAfter, chargetest.Noon)
		e.Rule = &rules.Rule{}
		chargetest.Use(e, chargetest.Noon)
		asks[i] = charge.Charge{Planned: charge.Planned{Rule: e.Rule, Key: e.Key, Cost: limit.Token}, Borrowing: charge.Borrowing{Local: e}}
	}
	call := func(now budget.Instant, storeNow int64, r lua.Result) {
		g := &charge.Transaction{Charges: asks[:len(r.Limits)]}
		table.Checkout(&charge.Header{}, g, now)
		g.Complete(table, &r, storeNow, now)
	}
	const behind, ahead = 1_000_000, 1_090_000
	denied := limit.Outcome{Bucket: limit.Bucket{Cap: 10 * limit.Token, Rate: limit.Rate{Micro: 1}}}
	call(chargetest.Noon, ahead, lua.Result{Limits: []limit.Outcome{denied, denied}, Clocks: []int64{behind, ahead}})
	e := asks[0].Local
	if e.Chunk.Peek(limit.Token, chargetest.Noon) != prefetch.Denied {
		t.Fatal("the denial is not remembered")
	}
	later := chargetest.Noon.Add(10 * time.Millisecond)
	allowed := denied
	allowed.Tokens = 9 * limit.Token
	call(later, behind+10_000, lua.Result{Allowed: true, Limits: []limit.Outcome{allowed}})
	if e.Chunk.Peek(limit.Token, later) == prefetch.Denied {
		t.Error("the denial is remembered, for the other node's clock is ahead")
	}
}
