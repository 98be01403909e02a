package audit

import (
	"slices"
	"time"

	"aliquot/budget"
)

const (
	// utilisationWindow is what global_limit_utilisation_ratio and
	// global_gain_ratio look back over: long against a report, short against a
	// dashboard.
	utilisationWindow = 10 * time.Second
	// excessKept is how long an observed excess or shortfall is shown at least, and at
	// most twice that: any scraper sees it, and it goes some time after its cause.
	maxKept = 5 * time.Minute
	// spacing, and twice the pace that a region reports its busy keys at, is after which
	// a key that was used is in the next report, also across two sessions.
	reportSpacing = time.Second
	// fullReport is a number of keys from which on a report may have left some out;
	// half of the most that one holds.
	fullReportKeys = 4096
	// sweepKeys is how many keys a tick of 20 ms looks at: all of a full hot table in
	// 16 s.
	sweepKeys = 256
	// microToken is one whole token in micro-tokens.
	microToken = 1e6
)

// audit adds up, for metrics alone, what regions report of hot keys, and holds it
// against what is promised. It counts in floats: nothing is decided by it. Its work
// is linear in the keys reported, its memory in the keys that are hot. Not safe for
// concurrent use.
type Audit struct {
	rho            float64     // how much faster than this one a region's clock may run
	promise        PromiseFunc // what the rules promise
	promiseVersion uint64      // changes with it
	// staged: some regions go by another version of the rules than the others. counted is
	// the number in force of a rule that has another one in the staged version: both are
	// counted as one, for a client has one limit. By staged number; nil: there is none.
	staged        bool
	stagedNumbers map[uint32]uint32

	keys        map[budget.KeyID]*keyRecord
	keyOrder    []budget.KeyID // of keys, which are looked at in turn
	sweepNext   int
	rules       map[uint32]*ruleTotals
	regions     []regionClock
	sessionless map[Daemon]helloAnswer // daemons without a session that tell what they admit
	began       budget.Instant         // no session that is counted here is older
	lastUnheard budget.Instant         // when a region that takes part was last not heard
	windowStart budget.Instant         // when the present window began
	maxSince    budget.Instant         // when the rules' latest excesses began to be collected

	breaches []Breach // since they were last taken
}

// promised is what is promised of a limit under the rule of a number.
type PromiseFunc func(rule uint32, limit budget.KeyLimit) budget.Promise

// newTally counts from nothing.
func New(rhoPPM int32, promise PromiseFunc, now budget.Instant) *Audit {
	return &Audit{
		rho: float64(rhoPPM) / 1e6, promise: promise, promiseVersion: 1, began: now, lastUnheard: now, windowStart: now, maxSince: now,
		keys: map[budget.KeyID]*keyRecord{}, rules: map[uint32]*ruleTotals{},
	}
}

// resume is a audit for the next reign of the same node, which goes on with what the
// last one counted: that is as certain as before. Sessions begin anew.
func (a *Audit) Resume(rhoPPM int32, promise PromiseFunc, now budget.Instant) *Audit {
	next := New(rhoPPM, promise, now)
	if a == nil || a.rho != next.rho {
		return next
	}
	next.promiseVersion = a.promiseVersion + 1
	next.keys, next.keyOrder, next.rules, next.windowStart, next.maxSince = a.keys, a.keyOrder, a.rules, a.windowStart, a.maxSince
	for _, key := range next.keys {
		key.resetSessions()
	}
	return next
}

// fold takes in one accepted report at the moment of its answer; hot tells which
// keys the ledger has, so that a report cannot make the audit grow beyond it.
func (a *Audit) AddReport(rep budget.Report, now budget.Instant, hot func(budget.KeyID) bool) {
	a.regions = growTo(a.regions, rep.Region)
	region := &a.regions[rep.Region]
	readFrom := region.reportAnswered(rep.Session, a.began, now)
	for _, k := range rep.Keys {
		if k.Gen == (budget.Gen{}) || k.Cold || k.Limit.Capacity <= 0 || !hot(k.Key) {
			continue
		}
		key := a.keyFor(k, now)
		rule := a.ruleFor(key.id.Rule)
		spent := key.readCounters(rep, k, readFrom, region, now)
		rule.add(rep.Region, spent.admitted, spent.offered)
		if key.counts == budget.Slots {
			continue // how many are in use at a time, nothing here tells
		}
		if spent.from >= key.validFrom {
			a.check(key, spent, now)
		}
		a.checkShortfall(key, rule, spent, now)
	}
	if slack := reportSpacing + 2*rep.Pace; len(rep.Keys) < fullReportKeys && readFrom.Sub(region.openedAt) >= slack {
		region.unreportedFrom, region.slack = readFrom, slack
	}
}

// key is the record of a key whose limit k tells. While two versions of the rules are in force
// the larger limit counts, in each part: the regions' parts of both sum to no more.
func (a *Audit) keyFor(k budget.KeyReport, now budget.Instant) *keyRecord {
	id, limit := k.Key, k.Limit
	if number, other := a.stagedNumbers[id.Rule]; other {
		id.Rule = number
	}
	key, rule := a.keys[id], a.ruleFor(id.Rule)
	if key == nil {
		key = &keyRecord{id: id}
		a.keys[id] = key
		a.keyOrder = append(a.keyOrder, id)
		rule.keys++
	}
	if a.staged && key.version == a.promiseVersion {
		limit = larger(limit, key.limit)
	}
	if key.version == a.promiseVersion && key.limit == limit {
		return key
	}
	rule.refillRate -= key.refillRate()
	if less := key.setLimit(limit, a.promise(id.Rule, limit), a.rho, now); less {
		rule.excess = recentMax{} // what was seen was within what was promised then
	}
	key.version = a.promiseVersion
	rule.refillRate += key.refillRate()
	return key
}

// larger is b with the capacity and the rate of a where those are larger.
func larger(a, b budget.KeyLimit) budget.KeyLimit {
	b.Capacity = max(a.Capacity, b.Capacity)
	if a.Rate > b.Rate || a.Rate == b.Rate && a.RateFrac > b.RateFrac {
		b.Rate, b.RateFrac = a.Rate, a.RateFrac
	}
	return b
}

func (a *Audit) ruleFor(number uint32) *ruleTotals {
	r := a.rules[number]
	if r == nil {
		r = &ruleTotals{}
		a.rules[number] = r
	}
	return r
}

// judge notes how far a key is above its limit, and whether that is more than is
// promised.
func (a *Audit) check(key *keyRecord, spent consumption, now budget.Instant) {
	key.addConsumption(spent, now)
	r := a.ruleFor(key.id.Rule)
	r.excess.add(key.excess())
	if possible := key.capacity + key.rate*now.Sub(key.busy.since).Seconds(); possible > 0 {
		r.gain = max(r.gain, key.busy.tokens/possible)
	}
	if len(a.breaches) < maxBreaches && key.exceedsPromise() {
		a.breaches = append(a.breaches, key.breach(now))
	}
}

// tick closes the window when it is over, and looks at some keys and the rules for
// what is no longer hot or in force.
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

// sweep forgets those of the next few keys that are cold again.
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
				r.refillRate = 0 // not a sum of roundings
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
	Excess, Shortfall float64   // the largest of the last 5 to 10 minutes, tokens
}

// Totals returns a copy of the sums, by rule number.
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

// MaxExcess returns the largest excess of a key that was observed, in tokens; 0 for a key that is not counted.
func (a *Audit) MaxExcess(id budget.KeyID) float64 {
	if key := a.keys[id]; key != nil {
		return key.maxExcess
	}
	return 0
}

// TakeBreaches returns the breaches that were found since the last call.
func (a *Audit) TakeBreaches() []Breach {
	found := a.breaches
	a.breaches = nil
	return found
}

// RulesChanged makes the audit compute the promise of each key again. staged reports whether some
// regions follow a staged version; stagedNumbers maps the number of a rule in the staged version to
// its different number in force, nil if there is none.
func (a *Audit) RulesChanged(staged bool, stagedNumbers map[uint32]uint32) {
	a.staged, a.stagedNumbers = staged, stagedNumbers
	a.promiseVersion++
}

// StagedNumber returns the number in the staged version of the rule with this number in force, if it has another one.
func (a *Audit) StagedNumber(inForce uint32) (staged uint32, known bool) {
	for staged, number := range a.stagedNumbers {
		if number == inForce {
			return staged, true
		}
	}
	return 0, false
}

// RegionSilent notes that the leader did not hear a region that takes part.
func (a *Audit) RegionSilent(now budget.Instant) { a.lastUnheard = now }

// DropPromise drops the function that New or Resume got: it may refer to the leader's whole state.
// Only Resume may follow.
func (a *Audit) DropPromise() { a.promise = nil }

// tokens are micro-tokens in whole tokens.
func tokens(micro int64) float64 { return float64(micro) / microToken }

// reach makes room for the region's index.
func growTo[T any](s []T, region int) []T {
	if missing := region + 1 - len(s); missing > 0 {
		return append(s, make([]T, missing)...)
	}
	return s
}

// tallyRegion tells when what a region reports was spent, by this node's own clock:
// a region sends a report after it has received the answer to the one before it, so
// the counters in it are no older than that answer.
type regionClock struct {
	session    uint64
	openedAt   budget.Instant // about when the session began, not before
	answeredAt budget.Instant // the latest report so far
	// unseen is before any use in this session that is not told yet, of a key that was not
	// told of for slack by then.
	unreportedFrom budget.Instant
	slack          time.Duration
}

// next is a report of a session, answered now: what it tells was read at from or
// later.
func (r *regionClock) reportAnswered(session uint64, began, now budget.Instant) (from budget.Instant) {
	from = max(began, r.answeredAt)
	if r.session != session {
		// It began after the last answer within the one before.
		r.session, r.openedAt, r.unreportedFrom = session, now, from
	}
	r.answeredAt = now
	return from
}

// tallyRule is the sum over the keys of one rule.
type ruleTotals struct {
	admitted, offered      []float64 // tokens, by region
	keys                   int       // that are counted here
	refillRate             float64   // tokens a second that they refill
	excess, shortfall      recentMax // tokens
	admittedInWindow, gain float64   // of the present window: tokens admitted, the largest gain
	utilisation            float64   // of the last whole window
	lastGain               float64
}

func (r *ruleTotals) add(region int, admitted, offered float64) {
	r.admitted, r.offered = growTo(r.admitted, region), growTo(r.offered, region)
	r.admitted[region] += admitted
	r.offered[region] += offered
	r.admittedInWindow += admitted
}

// shelved is the most that was seen lately: since the shelf was last cleared, and in
// the time before.
type recentMax struct{ current, previous float64 }

func (s *recentMax) add(v float64)  { s.current = max(s.current, v) }
func (s *recentMax) value() float64 { return max(s.current, s.previous) }
func (s *recentMax) rotate()        { s.current, s.previous = 0, s.current }

// beside is a daemon without a session, beside the one of its region that has it.
type Daemon struct {
	Region      int
	Incarnation uint64
}

// besideAnswer is the latest answer to a Hello of such a daemon.
type helloAnswer struct {
	nonce uint64
	at    budget.Instant // not later than it went out
}

// maxBeside is from how many such daemons on the audit forgets them all.
const maxSessionless = 1000

// foldBeside takes in what a daemon without a session tells, with a Hello, that it has admitted
// since the answer to the one before. It has no part in demand: the daemon with the session
// reports that. After a lost answer nothing is counted until the next one.
func (a *Audit) AddSessionless(of Daemon, nonce, since uint64, keys []budget.KeyReport, now budget.Instant, hot func(budget.KeyID) bool) {
	before := a.sessionless[of]
	if a.sessionless == nil || len(a.sessionless) >= maxSessionless {
		a.sessionless = map[Daemon]helloAnswer{}
	}
	a.sessionless[of] = helloAnswer{nonce, now}
	if since == 0 || before.nonce != since {
		return
	}
	for _, k := range keys {
		if k.Limit.Capacity <= 0 || !hot(k.Key) {
			continue
		}
		key := a.keyFor(k, now)
		key.counters = growTo(key.counters, of.Region)
		s := consumption{region: of.Region, admitted: tokens(k.Admitted), offered: tokens(k.Admitted), refunded: tokens(k.Refunded), from: before.at}
		a.ruleFor(key.id.Rule).add(of.Region, s.admitted, s.offered)
		if key.counts != budget.Slots && s.from >= key.validFrom {
			a.check(key, s, now)
		}
	}
}
