package audit

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

const (
	// breachTokens is from which excess beyond the promise on it counts as broken:
	// floats are exact to far less, and so are the stores.
	minBreach = 1
	// breachStep is the part of the capacity by which a breach that goes on must grow
	// to be counted again.
	breachStep = 0.1
	// maxBreaches bounds what one report can tell of: it names up to 8192 keys.
	maxBreaches = 16
)

// breach is a promise that was broken for certain: in the interval more was admitted
// of one key than is allowed.
type Breach struct {
	Key               budget.KeyID
	From, To          budget.Instant
	Admitted, Allowed float64 // tokens, in the interval
	Capacity, Excess  float64 // of what is allowed at once
	Rate              float64 // and each second
	ByRegion          []float64
}

// breaks reports whether the key is beyond what is promised, the first time and with
// each tenth of the capacity more.
func (key *keyRecord) exceedsPromise() bool {
	beyond := key.excess() - key.promisedExcess
	if beyond <= 0 {
		key.reportedExcess = 0
	}
	step := float64(minBreach)
	if key.reportedExcess > 0 {
		step = max(step, breachStep*key.capacity)
	}
	if beyond < key.reportedExcess+step {
		return false
	}
	key.reportedExcess = beyond
	return true
}

// breach is the evidence as of now.
func (key *keyRecord) breach(now budget.Instant) Breach {
	b := Breach{
		Key: key.id, From: key.busy.since, To: now, Admitted: key.busy.tokens,
		Capacity: key.capacity, Excess: key.promisedExcess, Rate: key.rate,
		Allowed: key.capacity + key.promisedExcess + key.rate*now.Sub(key.busy.since).Seconds(),
	}
	for _, s := range key.counters {
		b.ByRegion = append(b.ByRegion, s.inBusyPeriod)
	}
	return b
}

// busyPeriod finds an interval in which more was spent than a rate explains, from
// sums that come late: each says how many tokens were spent between two instants,
// not when. Everything counted lies between since and now for certain, so what it
// shows was really admitted in that interval, whatever the order and the delay of
// the sums: it may miss an excess, it never makes one up.
type busyPeriod struct {
	since    budget.Instant
	asOf     budget.Instant // over is as of this instant
	tokens   float64        // spent since since
	overRate float64        // tokens less rate x (at - since)
}

// counting is what became of tokens in a busy period.
type addOutcome uint8

const (
	ignored   addOutcome = iota // they would only weaken what it shows
	included                    // they are in it
	restarted                   // it begins with them
)

// spend counts tokens spent between from and now. It keeps the more telling of three
// intervals: the present one, lengthened to begin at from if need be; the present one
// without these tokens; or one that begins anew at from.
func (b *busyPeriod) add(tokens, rate float64, from, now budget.Instant) (became addOutcome) {
	restart := busyPeriod{since: from, asOf: now, tokens: tokens, overRate: tokens - rate*now.Sub(from).Seconds()}
	if b.tokens == 0 {
		*b = restart
		return restarted
	}
	b.overRate -= rate * now.Sub(b.asOf).Seconds()
	b.asOf = now
	if earlier := rate * max(0, b.since.Sub(from).Seconds()); tokens > earlier {
		b.tokens += tokens
		b.overRate += tokens - earlier
		b.since = min(b.since, from)
		became = included
	}
	if restart.overRate >= b.overRate {
		*b = restart
		return restarted
	}
	return became
}

// giveBack takes tokens off what was spent.
func (b *busyPeriod) refund(tokens float64) {
	tokens = min(tokens, b.tokens)
	b.tokens -= tokens
	b.overRate -= tokens
}
