package emergency

import (
	"testing"

	"aliquot/budget"
	"aliquot/internal/storeclock"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/charge"
)

// TestNoPartOfAShareIsSpentAndGivenUp: a key has its limit of 100, and the store decides two calls for one token each.
// The share is halved, so the store gives up 49 and keeps 49. The answer to the first call comes before that of the
// change, and the second one's after it. Memory admits 49, but none before it knows that the share has changed, and none
// if the change's answer is lost.
func TestNoPartOfAShareIsSpentAndGivenUp(t *testing.T) {
	whole, half := limit.Bucket{Cap: 100 * limit.Token}, limit.Bucket{Cap: 50 * limit.Token}
	for want, answered := range map[int]bool{49: true, 0: false} {
		now := 7200 * second
		e := New(func() budget.Instant { return now }, storeclock.New(), nil)
		a := anAsk(1)
		a.Limit.Rate = limit.Rate{}
		a.Right = budget.Right{Hot: true, Share: budget.Share{Burst: budget.Unit}, Phase: budget.Live, Until: now + 100*second}
		burst := func() (admitted int) {
			for b := a; e.Take([]*charge.Charge{&b}, false, "x", make([]limit.Outcome, 1)); b = a {
				admitted++
			}
			return admitted
		}
		record := []limit.Record{{Hot: true, Gen: 1, Share: whole, Tokens: whole.Cap, At: int64(now) / 1000, Stamp: 1}}
		view := limit.View{Hot: true, Gen: 1, Share: whole, Phase: limit.Live, Until: 1e15, Stamp: 1}
		call := func() (answer func()) {
			g := &charge.Transaction{Cost: limit.Token, Charges: []charge.Charge{a}}
			e.Sent([]*charge.Transaction{g}, &charge.Header{Epoch: "x"})
			r, at := &lua.Result{Limits: make([]limit.Outcome, 1)}, int64(now)/1000
			r.Allowed = limit.Take(record, []limit.View{view}, limit.Token, at, r.Limits)
			return func() { answerOne(e, g, r, at, now, now) }
		}
		first, late := call(), call()
		changed := &charge.Transaction{Charges: []charge.Charge{a}}
		e.Applying(changed, "x")
		first()
		if n := burst(); n != 0 {
			t.Errorf("%d admitted while the store may give up half of the share", n)
		}
		now += second
		_, made := limit.Apply(record[0], limit.Change{View: view, Gen: 2, Share: half}, int64(now)/1000)
		if answered {
			e.Applied(changed, []limit.Bucket{half}, []limit.Applied{made})
		} else {
			e.Applied(changed, []limit.Bucket{half}, nil)
		}
		late()
		if n, given := burst(), int(made.Released/limit.Token); n != want || given != 49 {
			t.Errorf("change answered: %t: %d given up and %d admitted, want 49 and %d", answered, given, n, want)
		}
	}
}
