package audit

import (
	"time"

	"aliquot/budget"
)

const (
	// shortfallPeriod is the length of the windows that compare what a region refused with what the limit
	// had left. It is long compared with the uncertainty at both ends of a window.
	shortfallPeriod = 30 * time.Second
	// refusalGap, plus twice the region's report interval, is the pause that ends a series of refusals.
	refusalGap = 2 * time.Second
)

// shortfallWindow watches one region that refuses requests for a key. The zero value watches none.
type shortfallWindow struct {
	region        int
	refusingSince budget.Instant // start of its refusals without a pause
	lastRefusal   budget.Instant // when it last reported a refusal; 0: never
	start         budget.Instant // of the current window
	refusedTokens float64        // refused by the region in the window
	admitted      float64        // admitted by all regions in the window, tokens
}

// checkShortfall looks for demand that was refused although the limit had tokens left. It judges
// windows of 30 s that begin after the time the share is promised to need, in which one region refused
// requests without a pause and no region was silent.
//
// In such a window the tokens left are what the limit refills, less what the promise allows to be lost
// in a steady state, less the refill of a second and of a report interval (for reports on their way),
// less what all regions admitted. The shortfall is the smaller of the tokens left and the tokens
// refused.
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
