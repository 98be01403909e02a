package coordinator

import (
	"time"

	"aliquot/budget"
)

const (
	// shortfallWindow is the time over which what a region was refused is held against
	// what the limit had left: long against what is uncertain at its ends.
	shortfallWindow = 30 * time.Second
	// refusalGap, and twice the pace of the region's reports, ends a spell of refusals.
	refusalGap = 2 * time.Second
)

// shortWindow watches one region that refuses requests for a key.
type shortWindow struct {
	region   int
	spell    budget.Instant // when it began to refuse without a pause
	refused  budget.Instant // when it last told of a refusal; 0: never
	since    budget.Instant // when the present window began
	short    float64        // tokens that the region refused in it
	admitted float64        // tokens that all regions admitted in it
}

// missed looks for demand that was refused although the limit had it left. In a window
// of 30 s, all of which lies after the time that the share is promised to need, one
// region refused requests all the time, and every region was heard. Then what is left
// is what the limit refills, less what the promise allows to be lost in a steady state,
// less the refill of a second and the pace of reports for those on their way, less what was admitted
// everywhere. The shortfall is the smaller of that and what the region refused.
func (t *tally) missed(key *tallyKey, rule *tallyRule, s spent, now budget.Instant) {
	w, gap := &key.short, refusalGap+2*s.pace
	w.admitted += s.admitted
	if refused := s.offered - s.admitted; refused > 0 {
		if w.refused == 0 || now.Sub(w.refused) > gap {
			*w = shortWindow{region: s.region, spell: now, since: now}
		}
		if w.region == s.region {
			w.refused = now
			w.short += refused
		}
	}
	if w.refused == 0 || now.Sub(w.since) < shortfallWindow {
		return
	}
	promise := t.promise(key.id.Rule, key.limit)
	settled := promise.Measured && w.since.Sub(w.spell) >= max(promise.ToHot, promise.ToFollow)
	if settled && now.Sub(w.refused) <= gap && t.unheard < w.since {
		possible := (key.refill()-tokens(promise.SteadyRate))*now.Sub(w.since).Seconds() - key.refill()*(spacing+s.pace).Seconds()
		rule.shortfall.see(min(w.short, possible-w.admitted))
	}
	w.since, w.short, w.admitted = now, 0, 0
}
