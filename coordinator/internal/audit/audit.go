// Package audit compares what the regions report with what the coordinator promises of each limit. It
// finds certain breaches of a promise, the largest excess above a limit, and demand that was refused
// although the limit had tokens left.
//
// The package is pure: it reads no clock and does no I/O. Every method that needs the time takes it as
// an argument, an instant of the leader's clock.
package audit

import (
	"slices"
	"time"

	"aliquot/budget"
	"aliquot/budget/promise"
)

const (
	// utilisationWindow is the window of global_limit_utilisation_ratio and global_gain_ratio. It is long
	// compared with the time between reports, and short for a dashboard.
	utilisationWindow = 10 * time.Second
	// maxKept is the shortest time for which an observed excess or shortfall is shown; the longest is
	// twice that. Every scraper sees the value, and it goes away some time after its cause.
	maxKept = 5 * time.Minute
	// reportSpacing, plus twice the region's report interval for one key, bounds the delay of a report: a
	// key that was used is in a report within that time, even if a new session begins meanwhile.
	reportSpacing = time.Second
	// fullReportKeys is the number of keys from which on a report may have left some keys out. It is half
	// of the keys that one report can hold.
	fullReportKeys = 4096
	// sweepKeys is the number of keys that one tick (20 ms) checks. A full hot table is checked in 16 s.
	sweepKeys = 256
	// microToken is one token in micro-tokens.
	microToken = 1e6
)

// Audit adds up what regions report of hot keys and compares the sums with the promise of each limit.
// Metrics and log lines show the result. No decision depends on it, so it computes in floats. Its work
// is linear in the keys reported, its memory in the hot keys. Make one with New. It is not safe for
// concurrent use.
type Audit struct {
	rho            float64     // part by which a region's clock may run faster than the leader's
	promise        PromiseFunc // of each limit, under the rules in force
	promiseVersion uint64      // grows with each change of the promises
	// staged reports whether some regions follow a staged version of the rules. stagedNumbers maps the
	// number of a rule in the staged version to its different number in force; nil if no rule has two.
	// Both numbers count as one rule, because a client has one limit.
	staged        bool
	stagedNumbers map[uint32]uint32

	keys        map[budget.KeyID]*keyRecord
	keyOrder    []budget.KeyID // of keys; the sweep visits them in this order
	sweepNext   int
	rules       map[uint32]*ruleTotals
	regions     []regionClock
	contents    []uint32               // by region: what identifies its store's contents; 0: not known
	losses      []budget.Instant       // when stores were found to have lost their contents, at most maxLosses
	sessionless map[Daemon]helloAnswer // daemons that have no session and report what they admit
	cold        coldUse
	began       budget.Instant // when this audit began; every session it counts is younger
	lastUnheard budget.Instant // when a region that takes part was last silent
	windowStart budget.Instant // when the current utilisation window began
	maxSince    budget.Instant // when the current maxima of the rules began

	breaches []Breach // found since the last TakeBreaches
}

// PromiseFunc returns what the coordinator promises of a limit under the rule with this number. It
// returns the zero Promise for a rule that is not in force.
type PromiseFunc func(rule uint32, limit budget.KeyLimit) promise.Promise

// New returns an Audit that has counted nothing. rhoPPM bounds the difference of clock rates, in
// millionths. The audit calls promise only inside AddReport and AddSessionless.
func New(rhoPPM int32, promise PromiseFunc, now budget.Instant) *Audit {
	return &Audit{
		rho: float64(rhoPPM) / 1e6, promise: promise, promiseVersion: 1, began: now, lastUnheard: now, windowStart: now, maxSince: now,
		keys: map[budget.KeyID]*keyRecord{}, rules: map[uint32]*ruleTotals{},
	}
}

// Resume returns the Audit for the next epoch of the same node. It keeps what a counted, which is as
// certain as before, and expects new sessions. If a is nil or rhoPPM differs, Resume returns an Audit
// that has counted nothing.
func (a *Audit) Resume(rhoPPM int32, promise PromiseFunc, now budget.Instant) *Audit {
	next := New(rhoPPM, promise, now)
	if a == nil || a.rho != next.rho {
		return next
	}
	next.promiseVersion = a.promiseVersion + 1
	next.contents, next.losses = a.contents, a.losses
	next.keys, next.keyOrder, next.rules, next.windowStart, next.maxSince = a.keys, a.keyOrder, a.rules, a.windowStart, a.maxSince
	for _, key := range next.keys {
		key.resetSessions()
	}
	return next
}

// AddReport adds one accepted report at the moment of its answer. hot reports whether the ledger has a
// key; other keys are ignored, so that a report cannot make the audit larger than the ledger. The
// result is an instant not later than the answer that the region had before it sent the report.
func (a *Audit) AddReport(rep budget.Report, now budget.Instant, hot func(budget.KeyID) bool) (readFrom budget.Instant) {
	a.regions = growTo(a.regions, rep.Region)
	region := &a.regions[rep.Region]
	readFrom = region.reportAnswered(rep.Session, a.began, now)
	a.recordContents(rep.Region, rep.Contents, now)
	for _, k := range rep.Keys {
		if k.Gen == (budget.Gen{}) || k.Cold || !hot(k.Key) {
			continue
		}
		key := a.keyFor(k.Key)
		rule := a.ruleFor(key.id.Rule)
		spent := key.readCounters(rep, k, readFrom, region, now)
		rule.add(rep.Region, spent.admitted, spent.offered)
		if k.Limit.Capacity <= 0 {
			key.refund(rep.Region, spent.refunded)
			continue // what was admitted, if anything, was admitted by the limit of other rules
		}
		a.limitKey(key, k.Limit, now)
		if key.counts == promise.Slots {
			continue // reports do not say how many slots are in use at a time
		}
		for _, earlier := range a.cold.take(k.Key, k.Limit, now) {
			if earlier.from >= key.validFrom {
				key.counters = growTo(key.counters, earlier.region)
				a.check(key, earlier, now)
			}
		}
		if spent.from >= key.validFrom {
			a.check(key, spent, now)
		}
		a.checkShortfall(key, rule, spent, now)
	}
	if slack := reportSpacing + 2*rep.Pace; len(rep.Keys) < fullReportKeys && readFrom.Sub(region.openedAt) >= slack {
		region.unreportedFrom, region.slack = readFrom, slack
	}
	return readFrom
}

// keyFor returns the record of a key, and makes it if needed.
func (a *Audit) keyFor(id budget.KeyID) *keyRecord {
	if number, other := a.stagedNumbers[id.Rule]; other {
		id.Rule = number
	}
	key := a.keys[id]
	if key == nil {
		key = &keyRecord{id: id}
		a.keys[id] = key
		a.keyOrder = append(a.keyOrder, id)
		a.ruleFor(id.Rule).keys++
	}
	return key
}

// limitKey sets the limit that a region tells of a key. While some regions follow a staged version, the record keeps the
// larger capacity and the larger rate of both limits: the regions' parts of both limits sum to no more than those.
func (a *Audit) limitKey(key *keyRecord, limit budget.KeyLimit, now budget.Instant) {
	if a.staged && key.version == a.promiseVersion {
		limit = larger(limit, key.limit)
	}
	if key.version == a.promiseVersion && key.limit == limit {
		return
	}
	rule := a.ruleFor(key.id.Rule)
	rule.refillRate -= key.refillRate()
	if less := key.setLimit(limit, a.promise(key.id.Rule, limit), a.rho, now); less {
		rule.excess = recentMax{} // the excess so far was within the promise of its time
	}
	key.version = a.promiseVersion
	rule.refillRate += key.refillRate()
}

// larger returns b with the larger capacity and the larger rate of a and b.
func larger(a, b budget.KeyLimit) budget.KeyLimit {
	b.Capacity = max(a.Capacity, b.Capacity)
	if a.Rate > b.Rate || a.Rate == b.Rate && a.RateFrac > b.RateFrac {
		b.Rate, b.RateFrac = a.Rate, a.RateFrac
	}
	return b
}

// ruleFor returns the totals of a rule, and makes them if needed.
func (a *Audit) ruleFor(number uint32) *ruleTotals {
	r := a.rules[number]
	if r == nil {
		r = &ruleTotals{}
		a.rules[number] = r
	}
	return r
}

// check counts consumption of a key, updates the rule's excess and gain, and notes a breach if the key
// is beyond its promise.
func (a *Audit) check(key *keyRecord, spent consumption, now budget.Instant) {
	key.addConsumption(spent, now)
	r := a.ruleFor(key.id.Rule)
	r.excess.add(key.excess())
	if possible := key.capacity + key.rate*now.Sub(key.busy.since).Seconds(); possible > 0 {
		r.gain = max(r.gain, key.busy.tokens/possible)
	}
	if len(a.breaches) < maxBreaches && key.exceedsPromise(a.forgiven(key)) {
		a.breaches = append(a.breaches, key.breach(a.forgiven(key), now))
	}
}

// Tick ends the utilisation window when its time is over. It also forgets some keys that hot no longer
// reports, and the rules that kept does not report as in force.
func (a *Audit) Tick(now budget.Instant, hot func(budget.KeyID) bool, kept func(rule uint32) bool) {
	a.sweep(hot)
	elapsed := now.Sub(a.windowStart)
	if elapsed < utilisationWindow {
		return
	}
	a.windowStart = now
	aged := now.Sub(a.maxSince) >= maxKept
	if aged {
		a.maxSince = now
	}
	for number, r := range a.rules {
		if !kept(number) {
			delete(a.rules, number)
			continue
		}
		r.utilisation, r.lastGain = 0, r.gain
		if possible := r.refillRate * elapsed.Seconds(); possible > 0 {
			r.utilisation = r.admittedInWindow / possible
		}
		r.admittedInWindow, r.gain = 0, 0
		if aged {
			r.excess.rotate()
			r.shortfall.rotate()
		}
	}
}

// sweep checks the next few keys and forgets those that are cold.
func (a *Audit) sweep(hot func(budget.KeyID) bool) {
	for range min(sweepKeys, len(a.keyOrder)) {
		a.sweepNext++
		if a.sweepNext >= len(a.keyOrder) {
			a.sweepNext = 0
		}
		id := a.keyOrder[a.sweepNext]
		if hot(id) {
			continue
		}
		last := len(a.keyOrder) - 1
		a.keyOrder[a.sweepNext] = a.keyOrder[last]
		a.keyOrder = a.keyOrder[:last]
		if r := a.rules[id.Rule]; r != nil {
			r.refillRate -= a.keys[id].refillRate()
			if r.keys--; r.keys == 0 {
				r.refillRate = 0 // without the rounding errors of the sum
			}
		}
		delete(a.keys, id)
	}
}

// Totals are the sums over the hot keys of one rule.
type Totals struct {
	Admitted, Offered []float64 // tokens, by region
	RefillRate        float64   // tokens a second
	Utilisation, Gain float64   // of the last complete window
	Excess, Shortfall float64   // maxima of the last 5 to 10 minutes, tokens
}

// Totals returns a copy of the sums of every rule, by rule number.
func (a *Audit) Totals() map[uint32]Totals {
	out := make(map[uint32]Totals, len(a.rules))
	for number, r := range a.rules {
		out[number] = Totals{
			Admitted: slices.Clone(r.admitted), Offered: slices.Clone(r.offered), RefillRate: r.refillRate,
			Utilisation: r.utilisation, Gain: r.lastGain, Excess: r.excess.value(), Shortfall: r.shortfall.value(),
		}
	}
	return out
}

// MaxExcess returns the largest excess of a key above its limit that was observed, in tokens; 0 for a
// key that is not counted.
func (a *Audit) MaxExcess(id budget.KeyID) float64 {
	if key := a.keys[id]; key != nil {
		return key.maxExcess
	}
	return 0
}

// TakeBreaches returns the breaches found since its last call.
func (a *Audit) TakeBreaches() []Breach {
	found := a.breaches
	a.breaches = nil
	return found
}

// RulesChanged makes the audit compute every promise again. staged reports whether some regions follow
// a staged version of the rules. stagedNumbers maps the number of a rule in the staged version to its
// different number in force; nil if no rule has two.
func (a *Audit) RulesChanged(staged bool, stagedNumbers map[uint32]uint32) {
	a.staged, a.stagedNumbers = staged, stagedNumbers
	a.promiseVersion++
}

// StagedNumber returns the number in the staged version of the rule that has this number in force.
// known is false if the rule has only one number.
func (a *Audit) StagedNumber(inForce uint32) (staged uint32, known bool) {
	for staged, number := range a.stagedNumbers {
		if number == inForce {
			return staged, true
		}
	}
	return 0, false
}

// RegionSilent notes that a region that takes part is silent now. A window of 30 s with a silent region
// shows no shortfall.
func (a *Audit) RegionSilent(now budget.Instant) { a.lastUnheard = now }

// DropPromise drops the function that New or Resume received: it may keep the leader's whole state in
// memory. After it only Resume may be called.
func (a *Audit) DropPromise() { a.promise = nil }

// tokens converts micro-tokens to tokens.
func tokens(micro int64) float64 { return float64(micro) / microToken }

// growTo returns s with room for the index region.
func growTo[T any](s []T, region int) []T {
	if missing := region + 1 - len(s); missing > 0 {
		return append(s, make([]T, missing)...)
	}
	return s
}

// regionClock bounds the time at which a region spent what it reports, by the leader's clock. A region
// sends a report after it has received the answer to the report before. So the counters in a report are
// not older than that answer.
type regionClock struct {
	session    uint64
	openedAt   budget.Instant // not before the session began, and close to it
	answeredAt budget.Instant // when the latest report was answered
	// unreportedFrom is not later than any use in this session that the region has not reported yet, for a
	// key that it had not reported for slack at that instant.
	unreportedFrom budget.Instant
	slack          time.Duration
}

// reportAnswered notes a report of a session that is answered now. It returns an instant before which
// the region did not read the reported counters.
func (r *regionClock) reportAnswered(session uint64, began, now budget.Instant) (from budget.Instant) {
	from = max(began, r.answeredAt)
	if r.session != session {
		// The session began after the last answer in the session before.
		r.session, r.openedAt, r.unreportedFrom = session, now, from
	}
	r.answeredAt = now
	return from
}

// ruleTotals are the sums over the keys of one rule.
type ruleTotals struct {
	admitted, offered      []float64 // tokens, by region
	keys                   int       // number of keys counted here
	refillRate             float64   // of all these keys, tokens a second
	excess, shortfall      recentMax // tokens
	admittedInWindow, gain float64   // in the current window: tokens, and the largest gain of a key
	utilisation            float64   // in the last complete window
	lastGain               float64
}

// add counts what one region admitted and was offered, in tokens.
func (r *ruleTotals) add(region int, admitted, offered float64) {
	r.admitted, r.offered = growTo(r.admitted, region), growTo(r.offered, region)
	r.admitted[region] += admitted
	r.offered[region] += offered
	r.admittedInWindow += admitted
}

// recentMax is the largest value of the current period and of the period before. The zero value has
// seen nothing.
type recentMax struct{ current, previous float64 }

func (s *recentMax) add(v float64)  { s.current = max(s.current, v) }
func (s *recentMax) value() float64 { return max(s.current, s.previous) }
func (s *recentMax) rotate()        { s.current, s.previous = 0, s.current }

// Daemon names a daemon without a session; another daemon of its region has the session.
type Daemon struct {
	Region      int
	Incarnation uint64
}

// helloAnswer is the latest answer to a Hello of such a daemon.
type helloAnswer struct {
	nonce uint64
	at    budget.Instant // not later than the answer was sent
}

// maxSessionless is the number of daemons without a session from which on the audit forgets them all.
const maxSessionless = 1000

// AddSessionless adds what a daemon without a session reports in a Hello. Ages count from the answer
// to the Hello with the nonce since. The demand of the region is not counted here, because the daemon
// with the session reports it. If an answer was lost, nothing counts until the next one.
func (a *Audit) AddSessionless(of Daemon, nonce, since uint64, spent []budget.Spent, now budget.Instant, hot func(budget.KeyID) bool) {
	before := a.sessionless[of]
	if a.sessionless == nil || len(a.sessionless) >= maxSessionless {
		a.sessionless = map[Daemon]helloAnswer{}
	}
	a.sessionless[of] = helloAnswer{nonce, now}
	if since == 0 || before.nonce != since {
		return
	}
	for _, s := range spent {
		if a.addSpent(of.Region, s, before.at, now, hot) {
			a.ruleFor(s.Key.Rule).add(of.Region, tokens(s.Admitted), tokens(s.Admitted))
		}
	}
}

// AddSpent adds the use that a report tells beside its counters, right after AddReport. from is the
// result of AddReport. The use does not count as admitted now: it may be much older than the report.
func (a *Audit) AddSpent(region int, spent []budget.Spent, from, now budget.Instant, hot func(budget.KeyID) bool) {
	for _, s := range spent {
		a.addSpent(region, s, from, now, hot)
	}
}

// addSpent counts use that began at most s.Age before an answer of this leader; from is not later than
// that answer. If the ledger does not have the key, addSpent returns false, and the use counts once the
// key is reported.
func (a *Audit) addSpent(region int, s budget.Spent, from, now budget.Instant, hot func(budget.KeyID) bool) bool {
	if s.Limit.Capacity <= 0 {
		return false
	}
	used := consumption{region: region, admitted: tokens(s.Admitted), refunded: tokens(s.Refunded)}
	used.from = from.Add(-time.Duration(float64(s.Age) * (1 + a.rho)))
	if !hot(s.Key) {
		a.cold.add(s.Key, coldReport{used, s.Limit, now})
		return false
	}
	key := a.keyFor(s.Key)
	a.limitKey(key, s.Limit, now)
	key.counters = growTo(key.counters, region)
	if key.counts != promise.Slots && used.from >= key.validFrom {
		a.check(key, used, now)
	}
	return true
}
