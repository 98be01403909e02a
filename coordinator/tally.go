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
	excessKept = 5 * time.Minute
	// spacing, and twice the pace that a region reports its busy keys at, is after which
	// a key that was used is in the next report, also across two sessions.
	spacing = time.Second
	// fullReport is a number of keys from which on a report may have left some out;
	// half of the most that one holds.
	fullReport = 4096
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
type tally struct {
	rho     float64  // how much faster than this one a region's clock may run
	promise promised // what the rules promise
	version uint64   // changes with it
	// staged: some regions go by another version of the rules than the others. counted is
	// the number in force of a rule that has another one in the staged version: both are
	// counted as one, for a client has one limit. By staged number; nil: there is none.
	staged  bool
	counted map[uint32]uint32

	keys    map[budget.KeyID]*tallyKey
	order   []budget.KeyID // of keys, which are looked at in turn
	turn    int
	rules   map[uint32]*tallyRule
	regions []tallyRegion
	beside  map[beside]besideAnswer // daemons without a session that tell what they admit
	began   budget.Instant          // no session that is counted here is older
	unheard budget.Instant          // when a region that takes part was last not heard
	window  budget.Instant          // when the present window began
	shelf   budget.Instant          // when the rules' latest excesses began to be collected

	breaches []breach // since they were last taken
}

// promised is what is promised of a limit under the rule of a number.
type promised func(rule uint32, limit budget.KeyLimit) budget.Promise

// newTally counts from nothing.
func newTally(rhoPPM int32, promise promised, now budget.Instant) *tally {
	return &tally{
		rho: float64(rhoPPM) / 1e6, promise: promise, version: 1, began: now, unheard: now, window: now, shelf: now,
		keys: map[budget.KeyID]*tallyKey{}, rules: map[uint32]*tallyRule{},
	}
}

// resume is a tally for the next reign of the same node, which goes on with what the
// last one counted: that is as certain as before. Sessions begin anew.
func (t *tally) resume(rhoPPM int32, promise promised, now budget.Instant) *tally {
	next := newTally(rhoPPM, promise, now)
	if t == nil || t.rho != next.rho {
		return next
	}
	next.version = t.version + 1
	next.keys, next.order, next.rules, next.window, next.shelf = t.keys, t.order, t.rules, t.window, t.shelf
	for _, key := range next.keys {
		key.newSessions()
	}
	return next
}

// fold takes in one accepted report at the moment of its answer; hot tells which
// keys the ledger has, so that a report cannot make the tally grow beyond it.
func (t *tally) fold(rep budget.Report, now budget.Instant, hot func(budget.KeyID) bool) {
	t.regions = reach(t.regions, rep.Region)
	region := &t.regions[rep.Region]
	readFrom := region.next(rep.Session, t.began, now)
	for _, k := range rep.Keys {
		if k.Gen == (budget.Gen{}) || k.Cold || k.Limit.Capacity <= 0 || !hot(k.Key) {
			continue
		}
		key := t.key(k, now)
		rule := t.rule(key.id.Rule)
		spent := key.read(rep, k, readFrom, region, now)
		rule.add(rep.Region, spent.admitted, spent.offered)
		if key.counts == budget.Slots {
			continue // how many are in use at a time, nothing here tells
		}
		if spent.from >= key.changed {
			t.judge(key, spent, now)
		}
		t.missed(key, rule, spent, now)
	}
	if slack := spacing + 2*rep.Pace; len(rep.Keys) < fullReport && readFrom.Sub(region.opened) >= slack {
		region.unseen, region.slack = readFrom, slack
	}
}

// key is the record of a key whose limit k tells. While two versions of the rules are in force
// the larger limit counts, in each part: the regions' parts of both sum to no more.
func (t *tally) key(k budget.KeyReport, now budget.Instant) *tallyKey {
	id, limit := k.Key, k.Limit
	if number, other := t.counted[id.Rule]; other {
		id.Rule = number
	}
	key, rule := t.keys[id], t.rule(id.Rule)
	if key == nil {
		key = &tallyKey{id: id}
		t.keys[id] = key
		t.order = append(t.order, id)
		rule.keys++
	}
	if t.staged && key.version == t.version {
		limit = larger(limit, key.limit)
	}
	if key.version == t.version && key.limit == limit {
		return key
	}
	rule.limit -= key.refill()
	if less := key.learn(limit, t.promise(id.Rule, limit), t.rho, now); less {
		rule.excess = shelved{} // what was seen was within what was promised then
	}
	key.version = t.version
	rule.limit += key.refill()
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

func (t *tally) rule(number uint32) *tallyRule {
	r := t.rules[number]
	if r == nil {
		r = &tallyRule{}
		t.rules[number] = r
	}
	return r
}

// judge notes how far a key is above its limit, and whether that is more than is
// promised.
func (t *tally) judge(key *tallyKey, spent spent, now budget.Instant) {
	key.spend(spent, now)
	r := t.rule(key.id.Rule)
	r.excess.see(key.above())
	if possible := key.capacity + key.rate*now.Sub(key.busy.since).Seconds(); possible > 0 {
		r.gain = max(r.gain, key.busy.tokens/possible)
	}
	if len(t.breaches) < maxBreaches && key.breaks() {
		t.breaches = append(t.breaches, key.breach(now))
	}
}

// tick closes the window when it is over, and looks at some keys and the rules for
// what is no longer hot or in force.
func (t *tally) tick(now budget.Instant, hot func(budget.KeyID) bool, kept func(rule uint32) bool) {
	t.sweep(hot)
	elapsed := now.Sub(t.window)
	if elapsed < utilisationWindow {
		return
	}
	t.window = now
	aged := now.Sub(t.shelf) >= excessKept
	if aged {
		t.shelf = now
	}
	for number, r := range t.rules {
		if !kept(number) {
			delete(t.rules, number)
			continue
		}
		r.utilisation, r.lastGain = 0, r.gain
		if possible := r.limit * elapsed.Seconds(); possible > 0 {
			r.utilisation = r.inWindow / possible
		}
		r.inWindow, r.gain = 0, 0
		if aged {
			r.excess.age()
			r.shortfall.age()
		}
	}
}

// sweep forgets those of the next few keys that are cold again.
func (t *tally) sweep(hot func(budget.KeyID) bool) {
	for range min(sweepKeys, len(t.order)) {
		t.turn++
		if t.turn >= len(t.order) {
			t.turn = 0
		}
		id := t.order[t.turn]
		if hot(id) {
			continue
		}
		last := len(t.order) - 1
		t.order[t.turn] = t.order[last]
		t.order = t.order[:last]
		if r := t.rules[id.Rule]; r != nil {
			r.limit -= t.keys[id].refill()
			if r.keys--; r.keys == 0 {
				r.limit = 0 // not a sum of roundings
			}
		}
		delete(t.keys, id)
	}
}

// sums is a copy of what is counted, by rule number.
func (t *tally) sums() map[uint32]tallyRule {
	out := make(map[uint32]tallyRule, len(t.rules))
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
func reach[T any](s []T, region int) []T {
	if missing := region + 1 - len(s); missing > 0 {
		return append(s, make([]T, missing)...)
	}
	return s
}
