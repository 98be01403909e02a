package sim

import (
	"aliquot/budget"
	"aliquot/internal/sim/oracle"
	"aliquot/internal/sim/rule"
	"aliquot/limit"
)

// sampleEvery is the time between two checks of a key that no event concerned.
const sampleEvery = 100 * milli

// suspectAll schedules a check of every key after the present event.
func (w *world) suspectAll() {
	w.suspects = true
	for _, r := range w.rules {
		r.Suspect = true
	}
}

// suspect schedules a check of a key after the present event.
func (w *world) suspect(r *rule.Rule) { w.suspects, r.Suspect = true, true }

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
	case w.suspects:
		w.suspects = false
		for _, r := range w.rules {
			if r.Suspect {
				r.Suspect = false
				w.checkKey(r)
			}
		}
	case w.Now() >= w.sampleAt:
		w.sampleAt = w.Now() + sampleEvery
		w.turn = (w.turn + 1) % len(w.rules)
		w.checkKey(w.rules[w.turn])
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
	for i := range w.stores {
		b := w.enforced(i, r)
		bursts, rates = bursts+b.burst, rates+b.rate
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
	whole := float64(r.Book.Limit().Capacity)
	for i := range w.stores {
		sum += max(float64(r.Book.InUse(i))/whole, w.enforced(i, r).burst)
	}
	if sum > 1+1e-12 {
		w.violate("I3, key %d, %v: %.9f of the limit is in use or may be", r.Key.Rule, r.Book.Limit().Algorithm, sum)
	}
}

// part is a part of a limit.
type part struct{ burst, rate float64 }

func partOf(b limit.Bucket, l limit.Limit) part {
	p := part{burst: float64(b.Cap) / float64(l.Capacity)}
	if !l.Algorithm.Counts() {
		p.rate = (float64(b.Rate.Micro) + float64(b.Rate.Frac)/1e6) / float64(l.Rate.Micro)
	}
	return p
}

// enforced returns the most that any daemon of a region could make its store enforce. If the
// store's clock was set forward since a daemon read it, the store would refuse that daemon's calls.
// Such a daemon enforces nothing until it has been refused and has read the clock again.
func (w *world) enforced(region int, r *rule.Rule) part {
	var most part
	s := w.stores[region]
	for _, n := range w.nodes {
		if n.region != region || n.dead || n.paused() || n.forgiven() || n.epoch == "" || n.epoch != s.epoch || s.promoted() || !n.configured() || n.staleFloors() || !r.InForce(n.version) {
			continue
		}
		l := r.At(n.version, n.wall())
		v := n.view(n.machine.Right(r.Key, r.KeyLimit(l), n.now()), r, l)
		if n.refused() {
			continue
		}
		v.Heard = s.heardBy(&v)
		record := s.get(r)
		_, b, _ := limit.Settle(record, v, s.time())
		if record.Hot && !(v.Hot && v.Gen == record.Gen) {
			// The record's share may be of another limit than this daemon's.
			l = oracle.Larger(l, s.records[r.Index].limit)
		}
		p := partOf(b, l)
		most.burst, most.rate = max(most.burst, p.burst), max(most.rate, p.rate)
	}
	return most
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
