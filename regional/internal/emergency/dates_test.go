package emergency

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/recall"
	"aliquot/internal/storeclock"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
)

// TestASettlementEndsTheDatesOfUse: it may give back what was admitted, so from then on nobody knows when what is in
// use of a log was admitted.
func TestASettlementEndsTheDatesOfUse(t *testing.T) {
	now := 7200 * second
	e := New(func() budget.Instant { return now }, storeclock.New(), nil)
	a := anAsk(1)
	a.Limit = limit.Limit{Algorithm: limit.SlidingLog, Capacity: 100 * limit.Token, Window: time.Minute}
	c := recall.Charge{Key: a.Key, Limit: a.Limit, Bucket: limit.Bucket{Cap: a.Limit.Capacity}, StoreNow: 7200e6, StoreLatest: 7200e6}
	c.Cost = 20 * limit.Token
	for i, at := range []int64{7150e6, 7199e6} {
		var k recall.Ticket
		left := limit.Tokens(80-20*i) * limit.Token
		e.table.Sent(&k, &c, budget.Instant(at)*1000)
		e.table.Answered(&k, &c, true, limit.Outcome{Tokens: left, Bucket: c.Bucket}, recall.Debt{}, at, budget.Instant(at)*1000)
	}
	earlier := func() int {
		e.table.HoldsUntil(now + 1)
		e.table.Emptied(now)
		return len(e.table.Memory(&c, now).Earlier)
	}
	if earlier() != 1 {
		t.Fatal("the use before has no date")
	}
	e.Overran(&charge.Transaction{Charges: []charge.Charge{a}}, []limit.Tokens{5 * limit.Token}, "")
	if earlier() != 0 {
		t.Error("the use before has a date after a settlement")
	}
}
