package sim

import (
	"testing"
	"time"

	"aliquot/limit"
)

// calmElastic is a calm world of three regions with an elastic limit.
func calmElastic(t *testing.T, l limit.Limit, b Behaviour) *world {
	t.Helper()
	opts := calmly(l, b)
	opts.Elastic = true
	return newWorld(1, opts, time.Hour)
}

// An elastic limit admits a burst in every region, once: the next one has to be
// earned, at the limit's rate. The oracle stands for the upper bound.
func TestCalmElasticBursts(t *testing.T) {
	for _, l := range []limit.Limit{of(300, 100), of(60, 20), of(30, 10)} {
		w := calmElastic(t, l, Behaviour{mode: pulsing})
		w.pass(t, 3200*time.Millisecond)
		if got, bound := w.Rules[0].Ideal.Spent(), 3*l.Capacity; got < bound/10*9 {
			t.Errorf("C %d: the first burst was %d of %d", l.Capacity/limit.Token, got/limit.Token, bound/limit.Token)
		}
		w.pass(t, 4*time.Second) // the first pulse is over
		before := w.Rules[0].Ideal.Spent()
		const rounds = 30
		each := time.Duration(w.clients[0].fills()) + 250*time.Millisecond // a pulse lasts that long in the mean
		w.pass(t, rounds*each)
		got := float64(w.Rules[0].Ideal.Spent()-before) / 1e6
		due := float64(l.Rate.Micro) / 1e6 * (rounds * each).Seconds()
		t.Logf("C %d: %.4f of the rate over %d rounds", l.Capacity/limit.Token, got/due, rounds)
		if got < due*0.8 { // the last round may lie outside
			t.Errorf("C %d: %.0f of %.0f tokens in %d rounds", l.Capacity/limit.Token, got, due, rounds)
		}
	}
}

// Elastic limits lose nothing of their rate to a client that stays in one region.
func TestCalmElasticSingle(t *testing.T) {
	l := of(300, 100)
	w := calmElastic(t, l, Behaviour{mode: single})
	w.pass(t, 10*time.Second)
	before := w.Rules[0].Ideal.Spent()
	w.pass(t, 70*time.Second)
	if got, due := int64(w.Rules[0].Ideal.Spent()-before), l.Rate.Micro*60; got < due/100*98 {
		t.Errorf("used %.4f of the rate", float64(got)/float64(due))
	}
}
