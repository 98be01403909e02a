package sim

import (
	"aliquot/budget"
	"aliquot/internal/sim/rule"
)

// sampleEvery is the time between two checks of a key that no event concerned.
const sampleEvery = 100 * milli

// checkShares checks I1: what the stores would enforce at this instant, for whichever daemon of
// each region asked, sums to at most the limit.
//
// It checks a key after everything that can raise what is enforced of it: a share that is applied,
// an answer that a state machine receives, a daemon that starts or wakes up, store contents that
// change, a phase that begins. A take raises nothing: it writes what Settle returns, which would
// have been enforced without it. Time raises something in two places only: when a daemon's phase
// becomes the floor's, and when its store agrees. The sample covers the second place, and whatever
// this list forgets: an excess then lasts for seconds.
func (w *world) checkShares() {
	switch {
	case w.Suspects:
		w.Suspects = false
		for _, r := range w.Rules {
			if r.Suspect {
				r.Suspect = false
				w.checkKey(r)
			}
		}
	case w.Now() >= w.sampleAt:
		w.sampleAt = w.Now() + sampleEvery
		w.turn = (w.turn + 1) % len(w.Rules)
		w.checkKey(w.Rules[w.turn])
	}
}

// checkKey sums parts of the limit. Each is a part of the limit by the rules of the region's
// daemon.
func (w *world) checkKey(r *rule.Rule) {
	if r.Book != nil {
		w.checkRights(r)
		return
	}
	var bursts, rates float64
	for i := range w.Stores {
		b := w.Enforced(i, r)
		bursts, rates = bursts+b.Burst, rates+b.Rate
	}
	// Every part is rounded down to whole micro-tokens, and once more by float64.
	if most := 1 + 1e-12; bursts > most || rates > most {
		w.violate("I1, key %d: regions enforce %.9f of the burst and %.9f of the rate", r.Key.Rule, bursts, rates)
	}
}

// checkRights checks I3: what counts in the regions, or could count, is at most the limit at every
// instant.
func (w *world) checkRights(r *rule.Rule) {
	var sum float64
	for i := range w.Stores {
		sum += max(float64(r.Book.InUse(i)), r.Book.Of(w.Enforced(i, r).Burst))
	}
	if sum /= float64(r.Book.Capacity()); sum > 1+1e-12 {
		w.violate("I3, key %d, %v: %.9f of the limit is in use or may be", r.Key.Rule, r.Book.Algorithm(), sum)
	}
}

// checkLedger checks I1 in the ledger.
func (w *world) checkLedger() {
	for _, k := range w.ledger.Keys() {
		var sum budget.Share
		for _, s := range w.ledger.Shares(k) {
			sum = sum.Add(s)
		}
		if !sum.Within(budget.Share{Rate: budget.Unit, Burst: budget.Unit}) {
			w.violate("I1, key %d: liabilities sum to %v", k.Rule, sum)
		}
	}
}
