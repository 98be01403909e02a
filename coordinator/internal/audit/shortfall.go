package audit

import (
	"time"

	"aliquot/budget"
)

const (
	// shortfallWindow is the time over which what a region was refused is held against
	// what the limit had left: long against what is uncertain at its ends.
	shortfallPeriod = 30 * time.Second
	// refusalGap, and twice the pace of the region's reports, ends a spell of refusals.
	refusalGap = 2 * time.Second
)

// shortWindow watches one region that refuses requests for a key.
type shortfallWindow struct {
	region        int
	refusingSince budget.Instant // when it began to refuse without a pause
	lastRefusal   budget.Instant // when it last told of a refusal; 0: never
	start         budget.Instant // when the present window began
	refusedTokens float64        // tokens that the region refused in it
	admitted      float64        // tokens that all regions admitted in it
}

// missed looks for demand that was refused although the limit had it left. In a window
// of 30 s, all of which lies after the time that the share is promised to need, one
// region refused requests all the time, and every region was heard. Then what is left
// is what the limit refills, less what the promise allows to be lost in a steady state,
// less the refill of a second and the pace of reports for those on their way, less what was admitted
// everywhere. The shortfall is the smaller of that and what the region refused.
func (a *Audit) checkShortfall(key *keyRecord, rule *ruleTotals, s consumption, now budget.Instant) {
	w, gap := &key.shortfall, refusalGap+2*s.reportInterval
	w.admitted += s.admitted
	if refused := s.offered - s.admitted; refused > 0 {
		if w.lastRefusal == 0 || now.Sub(w.lastRefusal) > gap {
			*w = shortfallWindow{region: s.region, refusingSince: now, start: now}
		}
		if w.region == s.region {
			w.lastRefusal = now
			w.refusedTokens += refused
		}
	}
	if w.lastRefusal == 0 || now.Sub(w.start) < shortfallPeriod {
		return
	}
	promise := a.promise(key.id.Rule, key.limit)
	settled := promise.Measured && w.start.Sub(w.refusingSince) >= max(promise.ToHot, promise.ToFollow)
	if settled && now.Sub(w.lastRefusal) <= gap && a.lastUnheard < w.start {
		possible := (key.refillRate()-tokens(promise.SteadyRate))*now.Sub(w.start).Seconds() - key.refillRate()*(reportSpacing+s.reportInterval).Seconds()
		rule.shortfall.add(min(w.refusedTokens, possible-w.admitted))
	}
	w.start, w.refusedTokens, w.admitted = now, 0, 0
}
