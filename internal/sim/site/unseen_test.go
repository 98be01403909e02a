package site

import (
	"testing"

	"aliquot/budget"
	"aliquot/internal/sim/shell"
)

// TestLeaseMeasuredOverAStop: a lease of three seconds counts from the sending of its call. A clock
// that was stopped from 10 s to 12 s has it end two seconds late, if the call was sent before.
func TestLeaseMeasuredOverAStop(t *testing.T) {
	at := func(ms int64) budget.Instant { return budget.Instant(ms * milli) }
	u := unseen{stops: []clockStop{{reading: at(10_000)}, {reading: at(10_500), clock: shell.Clock{Offset: -2 * second}}}}
	for _, c := range []struct{ sent, over int64 }{{9_000, 12_000}, {10_000, 13_000}, {10_200, 15_200}, {10_600, 0}} {
		if got := u.over(at(c.sent), at(c.sent+3000)); got != c.over*milli {
			t.Errorf("a lease of a call sent at %d ms was over at %d ms, want %d", c.sent, got/milli, c.over)
		}
	}
}
