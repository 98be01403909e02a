package coordinator

import (
	"time"

	"aliquot/budget"
)

// tallyKey is one hot key and what all regions together spent of it.
type keyRecord struct {
	id             budget.KeyID
	limit          budget.KeyLimit
	version        uint64  // of what is promised
	capacity, rate float64 // tokens, tokens a second with rho
	rho            float64 // that is in rate
	promisedExcess float64 // promised, tokens
	counts         budget.Counting
	validFrom      budget.Instant // what was spent before says nothing
	busy           busyPeriod
	maxExcess      float64 // that it was seen above its limit, tokens
	reportedExcess float64 // of the breach that was last told, tokens beyond excess
	shortfall      shortfallWindow
	counters       []regionCounters // by region
	// alsoSeen are the counters under the number that the key's rule has in the staged
	// version, by region; of busy they count nothing.
	stagedCounters []regionCounters
}

// seen is what a region last reported of a key.
type regionCounters struct {
	session           uint64
	admitted, offered int64          // cumulative, micro-tokens
	refunded          int64          // likewise
	readFrom          budget.Instant // these were read no earlier than this
	reportedAt        budget.Instant // and told here
	inBusyPeriod      float64        // of what the key's busy period counts, tokens
}

// spent is what one region used of a key between two reports of it.
type consumption struct {
	region            int
	admitted, offered float64        // tokens
	refunded          float64        // of what was admitted, also before; at most
	from              budget.Instant // not before this
	reportInterval    time.Duration  // between the region's reports of one key
}

// refill is what the key's limit earns, tokens a second; 0 for slots, which nothing is
// earned of.
func (key *keyRecord) refillRate() float64 {
	if key.counts == budget.Slots {
		return 0
	}
	return key.rate / (1 + key.rho)
}

// above is how far the key is above its limit in the busy period, tokens.
func (key *keyRecord) excess() float64 { return key.busy.overRate - key.capacity }

// learn takes in a limit and what is promised of it. After a change of the limit, or of
// the promise to less, what was spent before it says nothing of the new one, and a
// region may report by the old one for a while: the count begins again with each
// change that is seen. It reports whether less is promised than before.
func (key *keyRecord) setLimit(limit budget.KeyLimit, promise budget.Promise, rho float64, now budget.Instant) (less bool) {
	before := *key
	key.limit, key.rho, key.capacity = limit, rho, tokens(limit.Capacity)
	key.promisedExcess, key.counts = tokens(promise.Excess), promise.Counts
	key.rate = (tokens(limit.Rate) + float64(limit.RateFrac)/microToken/1e6) * (1 + rho)
	if before.capacity == 0 {
		return false // a new one
	}
	changed := key.capacity != before.capacity || key.rate != before.rate
	less = !changed && key.promisedExcess < before.promisedExcess
	if changed || less {
		key.validFrom, key.busy, key.maxExcess, key.reportedExcess, key.shortfall = now, busyPeriod{}, 0, 0, shortfallWindow{}
	}
	return less
}

// newSessions: what regions report next begins at zero.
func (key *keyRecord) resetSessions() {
	for i := range key.counters {
		key.counters[i] = regionCounters{inBusyPeriod: key.counters[i].inBusyPeriod}
	}
	clear(key.stagedCounters)
}

// read takes in a region's counters, told now and read no earlier than from, and
// returns what was used since the last.
func (key *keyRecord) readCounters(rep budget.Report, k budget.KeyReport, from budget.Instant, region *regionClock, now budget.Instant) consumption {
	key.counters = growTo(key.counters, rep.Region)
	s := &key.counters[rep.Region]
	if k.Key.Rule != key.id.Rule {
		key.stagedCounters = growTo(key.stagedCounters, rep.Region)
		s = &key.stagedCounters[rep.Region]
	}
	if s.session != rep.Session {
		*s = regionCounters{session: rep.Session, readFrom: region.unreportedFrom, inBusyPeriod: s.inBusyPeriod} // counters begin at zero
	}
	out := consumption{
		region:         rep.Region,
		admitted:       tokens(max(0, k.Admitted-s.admitted)),
		offered:        tokens(max(0, k.Offered-s.offered)),
		refunded:       tokens(max(0, k.Refunded-s.refunded)),
		from:           s.readFrom,
		reportInterval: rep.Pace,
	}
	if region.unreportedFrom.Sub(s.reportedAt) >= region.slack {
		out.from = max(s.readFrom, region.unreportedFrom) // it was left out of reports since: it was not used
	}
	s.admitted, s.offered, s.refunded, s.readFrom, s.reportedAt = k.Admitted, k.Offered, k.Refunded, from, now
	return out
}

// spend counts what a region used in the busy period. What it has given back is taken
// off, whenever it was admitted: that may hide an excess, and makes none up.
func (key *keyRecord) addConsumption(s consumption, now budget.Instant) {
	net := s.admitted - s.refunded
	if net < 0 {
		key.busy.refund(-net)
		key.counters[s.region].inBusyPeriod += net
		net = 0
	}
	switch key.busy.add(net, key.rate, s.from, now) {
	case restarted:
		for i := range key.counters {
			key.counters[i].inBusyPeriod = 0
		}
		fallthrough
	case included:
		key.counters[s.region].inBusyPeriod += net
	}
	key.maxExcess = max(key.maxExcess, key.excess())
}
