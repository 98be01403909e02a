package emergency

import (
	"errors"
	"testing"

	"aliquot/budget"
	"aliquot/internal/storeclock"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/charge"
)

// TestTheEndOfACallCountsOnce: a call that carried a debt was answered, and the next call of the same charge is not made.
// Another call that carries the debt meanwhile is still known to do so.
func TestTheEndOfACallCountsOnce(t *testing.T) {
	now := second
	e := New(func() budget.Instant { return now }, storeclock.New(), nil)
	now = 100 * second // every bucket is full by now
	group := func() *charge.Transaction { return &charge.Transaction{Charges: []charge.Charge{anAsk(1)}} }
	owe := func() {
		a := anAsk(1)
		if !e.Take([]*charge.Charge{&a}, false, "", make([]limit.Outcome, 1)) {
			t.Fatal("nothing is admitted without the store")
		}
	}
	answered, other, head := group(), group(), charge.Header{At: now, Latest: now + second}
	owe()
	e.Sent([]*charge.Transaction{answered}, &head)
	owe()
	e.Answered(answered, &lua.Result{Limits: []limit.Outcome{{}}}, 1, now)
	e.Sent([]*charge.Transaction{other}, &head)
	if other.Charges[0].Carried.Amount == 0 || !e.Settling(group(), &Turn{}) {
		t.Fatal("the other call carries nothing")
	}
	e.Failed([]*charge.Transaction{answered}, errors.New("not made"), now)
	if !e.Settling(group(), &Turn{}) {
		t.Error("the other call's debt counts as carried by none")
	}
}
