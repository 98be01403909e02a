package audit

import (
	"time"

	"aliquot/budget"
	"aliquot/budget/promise"
)

// keyRecord is one hot key and what all regions together spent of it.
type keyRecord struct {
	id             budget.KeyID
	limit          budget.KeyLimit
	version        uint64  // Audit.promiseVersion of the promise below
	capacity, rate float64 // tokens, and tokens a second with rho added
	rho            float64 // part of rate that was added for clocks
	promisedExcess float64 // tokens above the limit that are promised at most
	perLoss        float64 // tokens that each loss of a store's contents allows besides
	counts         promise.Counting
	validFrom      budget.Instant // use before this instant does not count
	busy           busyPeriod
	maxExcess      float64 // observed, tokens above the limit
	reportedExcess float64 // of the last breach noted, tokens beyond promisedExcess
	shortfall      shortfallWindow
	counters       []regionCounters // by region
	// stagedCounters are the counters under the rule's number in the staged version, by region. Their
	// inBusyPeriod is not used.
	stagedCounters []regionCounters
}

// regionCounters are what a region last reported of a key.
type regionCounters struct {
	session           uint64
	admitted, offered int64          // since the session began, micro-tokens
	refunded          int64          // since the session began, micro-tokens
	readFrom          budget.Instant // the region did not read the counters before
	reportedAt        budget.Instant // when the report was answered
	inBusyPeriod      float64        // this region's part of the key's busy period, tokens
}

// consumption is what one region used of a key between two reports of it.
type consumption struct {
	region            int
	admitted, offered float64        // tokens
	refunded          float64        // at most what was admitted, before these reports too, tokens
	from              budget.Instant // nothing of it was used before
	reportInterval    time.Duration  // time between two reports of one key by this region
}

// refillRate returns what the key's limit refills, in tokens a second; 0 for slots, which do not
// refill.
func (key *keyRecord) refillRate() float64 {
	if key.counts == promise.Slots {
		return 0
	}
	return key.rate / (1 + key.rho)
}

// excess returns how far the key is above its limit in the busy period, in tokens; negative below the
// limit.
func (key *keyRecord) excess() float64 { return key.busy.overRate - key.capacity }

// setLimit sets the limit and its promise. It reports whether less is promised than before.
//
// After a change of the limit, or of the promise to less, earlier use says nothing about the new one. A
// region may also report by the old limit for a while. So each change that is seen starts the count
// again.
func (key *keyRecord) setLimit(limit budget.KeyLimit, p promise.Promise, rho float64, now budget.Instant) (less bool) {
	before := *key
	key.limit, key.rho, key.capacity = limit, rho, tokens(limit.Capacity)
	key.promisedExcess, key.perLoss, key.counts = tokens(p.Excess), tokens(p.Forgiven), p.Counts
	key.rate = (tokens(limit.Rate) + float64(limit.RateFrac)/microToken/1e6) * (1 + rho)
	if before.capacity == 0 {
		return false // the key is new
	}
	changed := key.capacity != before.capacity || key.rate != before.rate
	less = !changed && key.promisedExcess < before.promisedExcess
	if changed || less {
		key.validFrom, key.busy, key.maxExcess, key.reportedExcess, key.shortfall = now, busyPeriod{}, 0, 0, shortfallWindow{}
	}
	return less
}

// resetSessions forgets the counters of all regions: the next reports come from new sessions, whose
// counters start at zero. The busy period stays.
func (key *keyRecord) resetSessions() {
	for i := range key.counters {
		key.counters[i] = regionCounters{inBusyPeriod: key.counters[i].inBusyPeriod}
	}
	clear(key.stagedCounters)
}

// readCounters stores a region's counters, reported now and not read before from. It returns the use
// since the region's last report of the key.
func (key *keyRecord) readCounters(rep budget.Report, k budget.KeyReport, from budget.Instant, region *regionClock, now budget.Instant) consumption {
	key.counters = growTo(key.counters, rep.Region)
	s := &key.counters[rep.Region]
	if k.Key.Rule != key.id.Rule {
		key.stagedCounters = growTo(key.stagedCounters, rep.Region)
		s = &key.stagedCounters[rep.Region]
	}
	if s.session != rep.Session {
		*s = regionCounters{session: rep.Session, readFrom: region.unreportedFrom, inBusyPeriod: s.inBusyPeriod} // counters start at zero
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
		out.from = max(s.readFrom, region.unreportedFrom) // reports since then left the key out: it was not used
	}
	out.from = max(0, out.from.Add(-budget.ObservedWithin))
	s.admitted, s.offered, s.refunded, s.readFrom, s.reportedAt = k.Admitted, k.Offered, k.Refunded, from, now
	return out
}

// addConsumption counts a region's use in the busy period. Refunds are subtracted whenever the tokens
// were admitted: that may hide an excess, and cannot invent one.
func (key *keyRecord) addConsumption(s consumption, now budget.Instant) {
	net := s.admitted - s.refunded
	if net < 0 {
		key.refund(s.region, -net)
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

// refund subtracts tokens that came back in a region from the busy period.
func (key *keyRecord) refund(region int, tokens float64) {
	key.busy.refund(tokens)
	key.counters[region].inBusyPeriod -= tokens
}

const (
	// minBreach is the excess beyond the promise, in tokens, that counts as a breach. The errors of floats
	// and of the stores are far smaller.
	minBreach = 1
	// breachStep is the part of the capacity by which a lasting breach must grow before it counts again.
	breachStep = 0.1
	// maxBreaches bounds the breaches kept between two calls of TakeBreaches: one report names up to 8192
	// keys.
	maxBreaches = 16
)

// Breach is a promise that was certainly broken: all regions together admitted more of one key in the
// interval than the promise allows.
type Breach struct {
	Key               budget.KeyID
	From, To          budget.Instant
	Admitted, Allowed float64 // in the interval, tokens
	Capacity, Excess  float64 // the part of Allowed that may be admitted at once, tokens
	Rate              float64 // and what may be added each second, tokens
	ByRegion          []float64
}

// exceedsPromise reports whether the key is beyond its promise and what losses forgave: at the first
// time, and again with each further tenth of the capacity.
func (key *keyRecord) exceedsPromise(forgiven float64) bool {
	beyond := key.excess() - key.promisedExcess - forgiven
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

// breach returns the evidence as of now, where losses forgave some tokens.
func (key *keyRecord) breach(forgiven float64, now budget.Instant) Breach {
	b := Breach{
		Key: key.id, From: key.busy.since, To: now, Admitted: key.busy.tokens,
		Capacity: key.capacity, Excess: key.promisedExcess + forgiven, Rate: key.rate,
		Allowed: key.capacity + key.promisedExcess + forgiven + key.rate*now.Sub(key.busy.since).Seconds(),
	}
	for _, s := range key.counters {
		b.ByRegion = append(b.ByRegion, s.inBusyPeriod)
	}
	return b
}

// busyPeriod finds an interval in which more was spent than a rate allows. Its input are sums that
// arrive late: each sum is the number of tokens spent between two instants. Everything that it counts
// was certainly spent between since and now, whatever the order and the delay of the sums. So it may
// miss an excess, and it never invents one. The zero value has counted nothing.
type busyPeriod struct {
	since    budget.Instant
	asOf     budget.Instant // instant of overRate
	tokens   float64        // spent since the start of the period
	overRate float64        // tokens - rate x (asOf - since)
}

// addOutcome says what add did with the tokens.
type addOutcome uint8

const (
	ignored   addOutcome = iota // not counted: they would make the excess smaller
	included                    // counted
	restarted                   // the period starts with them
)

// add counts tokens spent between from and now, with the rate in tokens a second. It keeps the interval
// with the largest excess of three: the current one, extended back to from if needed; the current one
// without these tokens; or a new one that starts at from.
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

// refund subtracts tokens from what was spent.
func (b *busyPeriod) refund(tokens float64) {
	tokens = min(tokens, b.tokens)
	b.tokens -= tokens
	b.overRate -= tokens
}
