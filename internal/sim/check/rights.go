package check

import "aliquot/limit"

// usage is one admission under a counting limit, by the store's clock.
type usage struct {
	at   int64
	cost limit.Tokens
}

// inUse returns what the region has in use by the definition of the limit's algorithm, whatever its
// store remembers of it.
func (s *site) inUse(l *limit.Limit, now int64) limit.Tokens {
	window, at := l.Window.Microseconds(), s.time(now)
	var present, before limit.Tokens
	for _, u := range s.used {
		switch {
		case l.Algorithm == limit.SlidingLog || l.Algorithm == limit.Concurrency:
			if u.at+window > at {
				present += u.cost
			}
		case u.at/window == at/window:
			present += u.cost
		case u.at/window == at/window-1 && l.Algorithm == limit.SlidingCounter:
			before += u.cost
		}
	}
	left := limit.Tokens(window - at%window)
	return present + (before*left+limit.Tokens(window)-1)/limit.Tokens(window)
}

// forget drops what no longer counts anywhere.
func (s *site) forget(l *limit.Limit, now int64) {
	if !l.Algorithm.Counts() {
		s.used = nil
		return
	}
	kept := make([]usage, 0, len(s.used)+1)
	for _, u := range s.used {
		if s.time(now)-u.at < 2*l.Window.Microseconds() {
			kept = append(kept, u)
		}
	}
	s.used = kept
}

// checkRights checks I3 for a counting limit: what is in use in the regions, or may come to be, is
// at most the limit at every instant.
func (w *world) checkRights(now int64) {
	var sum limit.Tokens
	for i := range w.sc.Regions {
		s := w.sites[i]
		sum += max(s.inUse(&w.sc.Limit, now), s.holdsAt(w.sc, now).bucket.Cap)
	}
	if sum > w.sc.Limit.Capacity {
		w.violate("I3: %v after, %d of %d micro-tokens are in use or may be%s", duration(now-w.now), sum, w.sc.Limit.Capacity, w.sharesText(now))
	}
}
