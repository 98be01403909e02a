package coordinator

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

// tally adds up, for metrics alone, what regions report of hot keys, and holds it
// against what is promised. It counts in floats: nothing is decided by it. Its work
// is linear in the keys reported, its memory in the keys that are hot. Not safe for
// concurrent use.
type auditor struct {
	rho            float64     // how much faster than this one a region's clock may run
	promise        promiseFunc // what the rules promise
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
	sessionless map[sessionlessDaemon]helloAnswer // daemons without a session that tell what they admit
	began       budget.Instant                    // no session that is counted here is older
	lastUnheard budget.Instant                    // when a region that takes part was last not heard
	windowStart budget.Instant                    // when the present window began
	maxSince    budget.Instant                    // when the rules' latest excesses began to be collected

	breaches []breach // since they were last taken
}

// promised is what is promised of a limit under the rule of a number.
type promiseFunc func(rule uint32, limit budget.KeyLimit) budget.Promise

// newTally counts from nothing.
func newAuditor(rhoPPM int32, promise promiseFunc, now budget.Instant) *auditor {
	return &auditor{
		rho: float64(rhoPPM) / 1e6, promise: promise, promiseVersion: 1, began: now, lastUnheard: now, windowStart: now, maxSince: now,
		keys: map[budget.KeyID]*keyRecord{}, rules: map[uint32]*ruleTotals{},
	}
}

// resume is a tally for the next reign of the same node, which goes on with what the
// last one counted: that is as certain as before. Sessions begin anew.
func (t *auditor) resume(rhoPPM int32, promise promiseFunc, now budget.Instant) *auditor {
	next := newAuditor(rhoPPM, promise, now)
	if t == nil || t.rho != next.rho {
		return next
	}
	next.promiseVersion = t.promiseVersion + 1
	next.keys, next.keyOrder, next.rules, next.windowStart, next.maxSince = t.keys, t.keyOrder, t.rules, t.windowStart, t.maxSince
	for _, key := range next.keys {
		key.resetSessions()
	}
	return next
}

// fold takes in one accepted report at the moment of its answer; hot tells which
// keys the ledger has, so that a report cannot make the tally grow beyond it.
func (t *auditor) addReport(rep budget.Report, now budget.Instant, hot func(budget.KeyID) bool) {
	t.regions = growTo(t.regions, rep.Region)
	region := &t.regions[rep.Region]
	readFrom := region.reportAnswered(rep.Session, t.began, now)
	for _, k := range rep.Keys {
		if k.Gen == (budget.Gen{}) || k.Cold || k.Limit.Capacity <= 0 || !hot(k.Key) {
			continue
		}
		key := t.keyFor(k, now)
		rule := t.ruleFor(key.id.Rule)
		spent := key.readCounters(rep, k, readFrom, region, now)
		rule.add(rep.Region, spent.admitted, spent.offered)
		if key.counts == budget.Slots {
			continue // how many are in use at a time, nothing here tells
		}
		if spent.from >= key.validFrom {
			t.check(key, spent, now)
		}
		t.checkShortfall(key, rule, spent, now)
	}
	if slack := reportSpacing + 2*rep.Pace; len(rep.Keys) < fullReportKeys && readFrom.Sub(region.openedAt) >= slack {
		region.unreportedFrom, region.slack = readFrom, slack
	}
}

// key is the record of a key whose limit k tells. While two versions of the rules are in force
// the larger limit counts, in each part: the regions' parts of both sum to no more.
func (t *auditor) keyFor(k budget.KeyReport, now budget.Instant) *keyRecord {
	id, limit := k.Key, k.Limit
	if number, other := t.stagedNumbers[id.Rule]; other {
		id.Rule = number
	}
	key, rule := t.keys[id], t.ruleFor(id.Rule)
	if key == nil {
		key = &keyRecord{id: id}
		t.keys[id] = key
		t.keyOrder = append(t.keyOrder, id)
		rule.keys++
	}
	if t.staged && key.version == t.promiseVersion {
		limit = larger(limit, key.limit)
	}
	if key.version == t.promiseVersion && key.limit == limit {
		return key
	}
	rule.refillRate -= key.refillRate()
	if less := key.setLimit(limit, t.promise(id.Rule, limit), t.rho, now); less {
		rule.excess = recentMax{} // what was seen was within what was promised then
	}
	key.version = t.promiseVersion
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

func (t *auditor) ruleFor(number uint32) *ruleTotals {
	r := t.rules[number]
	if r == nil {
		r = &ruleTotals{}
		t.rules[number] = r
	}
	return r
}

// judge notes how far a key is above its limit, and whether that is more than is
// promised.
func (t *auditor) check(key *keyRecord, spent consumption, now budget.Instant) {
	key.addConsumption(spent, now)
	r := t.ruleFor(key.id.Rule)
	r.excess.add(key.excess())
	if possible := key.capacity + key.rate*now.Sub(key.busy.since).Seconds(); possible > 0 {
		r.gain = max(r.gain, key.busy.tokens/possible)
	}
	if len(t.breaches) < maxBreaches && key.exceedsPromise() {
		t.breaches = append(t.breaches, key.breach(now))
	}
}

// tick closes the window when it is over, and looks at some keys and the rules for
// what is no longer hot or in force.
func (t *auditor) tick(now budget.Instant, hot func(budget.KeyID) bool, kept func(rule uint32) bool) {
	t.sweep(hot)
	elapsed := now.Sub(t.windowStart)
	if elapsed < utilisationWindow {
		return
	}
	t.windowStart = now
	aged := now.Sub(t.maxSince) >= maxKept
	if aged {
		t.maxSince = now
	}
	for number, r := range t.rules {
		if !kept(number) {
			delete(t.rules, number)
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
func (t *auditor) sweep(hot func(budget.KeyID) bool) {
	for range min(sweepKeys, len(t.keyOrder)) {
		t.sweepNext++
		if t.sweepNext >= len(t.keyOrder) {
			t.sweepNext = 0
		}
		id := t.keyOrder[t.sweepNext]
		if hot(id) {
			continue
		}
		last := len(t.keyOrder) - 1
		t.keyOrder[t.sweepNext] = t.keyOrder[last]
		t.keyOrder = t.keyOrder[:last]
		if r := t.rules[id.Rule]; r != nil {
			r.refillRate -= t.keys[id].refillRate()
			if r.keys--; r.keys == 0 {
				r.refillRate = 0 // not a sum of roundings
			}
		}
		delete(t.keys, id)
	}
}

// sums is a copy of what is counted, by rule number.
func (t *auditor) totals() map[uint32]ruleTotals {
	out := make(map[uint32]ruleTotals, len(t.rules))
	for number, r := range t.rules {
		sum := *r
		sum.admitted, sum.offered = slices.Clone(r.admitted), slices.Clone(r.offered)
		out[number] = sum
	}
	return out
}

// tokens are micro-tokens in whole tokens.
func tokens(micro int64) float64 { return float64(micro) / microToken }

// reach makes room for the region's index.
func growTo[T any](s []T, region int) []T {
	if missing := region + 1 - len(s); missing > 0 {
		return append(s, make([]T, missing)...)
	}
	return s
}
