package prefetch_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"aliquot/internal/prefetch"
	"aliquot/limit"
)

// flight is one call under way, or one that its daemon has given up.
type flight struct {
	view        limit.ChunkView
	trip        prefetch.Call
	renews      bool
	made, given bool
	allowed     bool
	out         limit.Outcome
	at          int64
}

// TestHoldsNoMoreThanIsLent: whatever is lost, late or overtaken, a daemon never spends
// what its store does not count as lent. So what it spends was taken from the record, and
// the bucket has not filled up in its place.
func TestHoldsNoMoreThanIsLent(t *testing.T) {
	const rounds = 30 // of rapid's own number of histories: the rare ones tell most
	for range rounds {
		rapid.Check(t, func(rt *rapid.T) {
			d := newDesk(t, 20, 100)
			var flights []*flight
			one := func(rt *rapid.T, fits func(*flight) bool) *flight {
				var found []*flight
				for _, f := range flights {
					if fits(f) {
						found = append(found, f)
					}
				}
				if len(found) == 0 {
					rt.Skip()
				}
				return rapid.SampledFrom(found).Draw(rt, "call")
			}
			drop := func(f *flight) {
				for i := range flights {
					if flights[i] == f {
						flights = append(flights[:i:i], flights[i+1:]...)
						return
					}
				}
			}
			leave := func(rt *rapid.T, renews bool) {
				if len(flights) == 4 {
					rt.Skip()
				}
				for range 3 {
					d.key.CountCheck(token, d.now)
				}
				f := &flight{renews: renews}
				if renews {
					f.view, f.trip = d.key.Renew(d.terms, d.now)
				} else {
					f.view, f.trip = d.key.Checkout(token, d.terms, d.now)
				}
				flights = append(flights, f)
			}
			rt.Repeat(map[string]func(*rapid.T){
				"": func(rt *rapid.T) {
					left := d.key.Left()
					if left == 0 || d.key.Peek(left, d.now) != prefetch.Holds {
						return
					}
					if settled, _, _ := limit.Settle(d.record, d.view, d.us()); settled.Lent < left {
						rt.Fatalf("it can spend %d, and %d are lent", left, settled.Lent)
					}
				},
				"pass":  func(rt *rapid.T) { d.pass(time.Duration(rapid.IntRange(1, 60).Draw(rt, "ms")) * time.Millisecond) },
				"bring": func(rt *rapid.T) { leave(rt, false) },
				"renew": func(rt *rapid.T) {
					for _, f := range flights {
						if f.renews && !f.given {
							rt.Skip()
						}
					}
					leave(rt, true)
				},
				"spend": func(rt *rapid.T) {
					if d.key.Peek(token, d.now) == prefetch.Holds {
						d.key.Spend(token, d.now)
					}
				},
				"arrive": func(rt *rapid.T) {
					f := one(rt, func(f *flight) bool { return !f.made })
					f.allowed, f.out = d.take(0, f.view)
					f.made, f.at = true, d.us()
					if f.given {
						drop(f)
					}
				},
				"answer": func(rt *rapid.T) {
					f := one(rt, func(f *flight) bool { return f.made })
					d.key.Complete(f.trip, f.allowed, f.out, f.at, d.now)
					drop(f)
				},
				"lose": func(rt *rapid.T) {
					f := one(rt, func(f *flight) bool { return !f.given })
					d.key.Fail(f.trip)
					if f.given = true; f.made {
						drop(f)
					}
				},
				"unmade": func(rt *rapid.T) {
					f := one(rt, func(f *flight) bool { return !f.made && !f.given })
					d.key.NotExecuted(f.trip, f.view)
					drop(f)
				},
				"end": func(*rapid.T) { d.key.End() },
			})
		})
	}
}

// TestALoanThatIsOverIsNotTakenIntoTheNext: what a call brought along that the store has not made comes
// back here; if the store has begun another loan meanwhile, it is lent no more.
func TestALoanThatIsOverIsNotTakenIntoTheNext(t *testing.T) {
	d := newDesk(t, 20, 100)
	call := func(lends bool) (limit.ChunkView, prefetch.Call) {
		for range 3 {
			d.key.CountCheck(token, d.now)
		}
		terms := d.terms
		terms.Lends = lends
		return d.key.Checkout(token, terms, d.now)
	}
	answer := func(view limit.ChunkView, trip prefetch.Call) func() {
		allowed, out := d.take(0, view)
		at := d.us()
		return func() { d.key.Complete(trip, allowed, out, at, d.now) }
	}
	view, trip := call(true)
	answer(view, trip)()
	if d.key.Left() == 0 {
		t.Fatal("nothing was lent to begin with")
	}
	stays, stayed := call(false) // takes along what is left, and does not arrive
	d.pass(prefetch.Life + 10*time.Millisecond)
	view, trip = call(true)
	arrived := answer(view, trip)
	d.key.NotExecuted(stayed, stays)
	arrived()
	settled, _, _ := limit.Settle(d.record, d.view, d.us())
	if left := d.key.Left(); d.key.Peek(left, d.now) == prefetch.Holds && settled.Lent < left {
		t.Errorf("it can spend %d, and %d are lent", left, settled.Lent)
	}
}

// TestEndedMemory: a denial says nothing of a share that has changed since.
func TestEndedMemory(t *testing.T) {
	d := newDesk(t, 1, 1)
	for range 3 {
		d.check(token)
	}
	if found := d.key.Peek(token, d.now); found != prefetch.Denied {
		t.Fatalf("the store has just denied it: %v", found)
	}
	d.key.End()
	if found := d.key.Peek(token, d.now); found != prefetch.Ask {
		t.Errorf("after a change of the share: %v", found)
	}
}

// TestForgottenDenial: a denial that was on its way when something was given back is not
// remembered, for nobody knows which came first.
func TestForgottenDenial(t *testing.T) {
	d := newDesk(t, 1, 1)
	d.check(token)
	view, trip := d.key.Checkout(token, d.terms, d.now)
	allowed, out := d.take(token, view)
	d.key.Forget()
	d.key.Complete(trip, allowed, out, d.us(), d.now)
	if found := d.key.Peek(token, d.now); allowed || found != prefetch.Ask {
		t.Errorf("allowed %t, then %v", allowed, found)
	}
	d.check(token)
	if found := d.key.Peek(token, d.now); found != prefetch.Denied {
		t.Errorf("the store has denied it since: %v", found)
	}
}
