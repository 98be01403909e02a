package emergency

import (
	"errors"
	"net"
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
	answerOne(e, answered, &lua.Result{Limits: []limit.Outcome{{}}}, 1, now, now)
	e.Sent([]*charge.Transaction{other}, &head)
	if carriedBy(&other.Charges[0]) == 0 || !e.Settling(group(), &Turn{}) {
		t.Fatal("the other call carries nothing")
	}
	e.Failed([]*charge.Transaction{answered}, errors.New("not made"), now)
	if !e.Settling(group(), &Turn{}) {
		t.Error("the other call's debt counts as carried by none")
	}
}

// TestANodeThatDecidedHasTakenWhatACallCarried: one of two nodes does not get its part of a call. The other one has denied
// its part, and has taken what its key owed. The key of the first one was charged nothing.
func TestANodeThatDecidedHasTakenWhatACallCarried(t *testing.T) {
	now := second
	e := New(func() budget.Instant { return now }, storeclock.New(), nil)
	now = 100 * second // every bucket is full by now
	unsent, decided := anAsk(1), anAsk(2)
	out := make([]limit.Outcome, 1)
	if !e.Take([]*charge.Charge{&decided}, false, "", out) {
		t.Fatal("nothing is admitted without the store")
	}
	both := []*charge.Transaction{{Charges: []charge.Charge{unsent, decided}}}
	head := &charge.Header{At: now, Latest: now + second}
	if e.Sent(both, head); carriedBy(&both[0].Charges[1]) != limit.Token {
		t.Fatalf("the call carries %v, want 1 token", carriedBy(&both[0].Charges[1]))
	}
	unsentErr := &net.OpError{Op: "dial", Err: errors.New("refused")}
	left := limit.Outcome{Tokens: 7 * limit.Token, Bucket: limit.Bucket{Cap: 50 * limit.Token}}
	answerOne(e, both[0], &lua.Result{
		Limits: []limit.Outcome{{}, left}, Err: unsentErr, Undecided: map[int]error{0: unsentErr},
	}, 1, now, now+second)
	if e.Owes() {
		t.Error("something is owed still")
	}
	if e.Sent(both, head); carriedBy(&both[0].Charges[1]) != 0 {
		t.Errorf("the next call carries %v once more", carriedBy(&both[0].Charges[1]))
	}
	e.Failed(both, lua.ErrNoRoom, now)
	passed := 0
	for e.Take([]*charge.Charge{&decided}, false, "", out) {
		passed++
	}
	if passed != 7 {
		t.Errorf("the node that decided has 7 left, and %d pass", passed)
	}
}
