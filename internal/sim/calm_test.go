package sim

import (
	"testing"
	"time"

	"aliquot/limit"
)

func of(capacity, rate int64) limit.Limit {
	return limit.Limit{Capacity: limit.Tokens(capacity) * limit.Token, Rate: limit.Rate{Micro: rate * million}}
}

// calm is a world of three regions at 80 ms from the coordinators, in which nothing
// fails and one key is called in one way from the third second on.
func calm(t *testing.T, l limit.Limit, b Behaviour) *world {
	t.Helper()
	return newWorld(1, calmly(l, b), time.Hour)
}

func calmly(l limit.Limit, b Behaviour) Options {
	return Options{
		Regions: 3, Keys: 1, RTT: 80 * time.Millisecond, Limit: l, Calm: true,
		Start: 3 * time.Second, Mode: &b,
	}
}

func (w *world) pass(t *testing.T, d time.Duration) {
	t.Helper()
	w.guarded(w.Now() + int64(d))
	if w.failure != nil {
		w.failure.Trace = w.lines()
		t.Fatal(w.failure)
	}
}

// A client in one region gets its limit from its third second on.
func TestCalmSingle(t *testing.T) {
	for _, l := range []limit.Limit{of(300, 100), of(60, 20), of(30, 10), of(1000, 50), of(10, 5), of(3, 1)} {
		w := calm(t, l, Behaviour{mode: single})
		w.pass(t, 6*time.Second)
		before := w.Rules[0].Ideal.Spent()
		w.pass(t, 60*time.Second)
		got, due := int64(w.Rules[0].Ideal.Spent()-before), l.Rate.Micro*60
		t.Logf("C %d r %d: %.4f of the rate", l.Capacity/limit.Token, l.Rate.Micro/million, float64(got)/float64(due))
		if got < due/100*98 {
			t.Errorf("C %d r %d: used %.4f of the rate", l.Capacity/limit.Token, l.Rate.Micro/million, float64(got)/float64(due))
		}
	}
}

// A client that rotates regions gains nothing and loses next to nothing. (The regions
// of a limit that has a home take turns; see TestCalmHomeInTurns.)
func TestCalmRotation(t *testing.T) {
	for _, m := range []mode{rotating, greedy} {
		for _, l := range []limit.Limit{of(300, 100), of(60, 20), of(30, 10), of(1000, 50)} {
			w := calm(t, l, Behaviour{mode: m})
			w.pass(t, 33*time.Second)
			got, due := int64(w.Rules[0].Ideal.Spent()), int64(l.Capacity)+l.Rate.Micro*30
			t.Logf("mode %d C %d r %d: %.4f of C + rt", m, l.Capacity/limit.Token, l.Rate.Micro/million, float64(got)/float64(due))
			if got < due/100*97 {
				t.Errorf("mode %d C %d r %d: used %.4f of C + rt", m, l.Capacity/limit.Token, l.Rate.Micro/million, float64(got)/float64(due))
			}
		}
	}
}

// A key that nobody uses any more leaves the ledger.
func TestCalmCools(t *testing.T) {
	b := Behaviour{mode: greedy}
	w := calm(t, of(300, 100), b)
	w.pass(t, 10*time.Second)
	if w.ledger.Len() != 1 {
		t.Fatalf("%d hot keys", w.ledger.Len())
	}
	w.opts.Mode.mode = idle
	w.pass(t, 30*time.Second)
	if w.ledger.Len() != 0 {
		t.Fatalf("%d keys are still hot", w.ledger.Len())
	}
}
