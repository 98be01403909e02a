package check

import "aliquot/limit"

// checkRights checks I3 for a counting limit: what is in use in the regions, or may come to be, is
// at most the limit at every instant.
func (w *world) checkRights(now int64) {
	var sum limit.Tokens
	for i := range w.sc.Regions {
		s := w.sites[i]
		sum += max(s.store.InUse(&w.sc.Limit, now), s.holdsAt(w.sc, now).bucket.Cap)
	}
	if sum > w.sc.Limit.Capacity {
		w.violate("I3: %v after, %d of %d micro-tokens are in use or may be%s", duration(now-w.now), sum, w.sc.Limit.Capacity, w.sharesText(now))
	}
}
