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
	// excessKept is how long an observed excess is shown at least, and at most twice
	// that: any scraper sees it, and an alert ends some time after its cause.
	excessKept = 5 * time.Minute
	// spacing is after which a key that was used is in the next report, also across
	// two sessions: a region spaces the reports of one key by a tenth of it.
	spacing = time.Second
	// fullReport is a number of keys from which on a report may have left some out;
	// half of the most that one holds.
	fullReport = 4096
	// microToken is one whole token in micro-tokens.
	microToken = 1e6
)

// tally adds up, for metrics alone, what regions report of hot keys. It counts in
// floats: nothing is decided by it. Not safe for concurrent use.
type tally struct {
	rho     float64 // how much faster than this one a region's clock may run
	keys    map[budget.KeyID]*tallyKey
	rules   map[uint32]*tallyRule
	regions []tallyRegion
	began   budget.Instant // no session that is counted here is older
	window  budget.Instant // when the present window began
	shelf   budget.Instant // when the rules' latest excesses began to be collected
}

// tallyRegion tells when what a region reports was spent, by this node's own clock:
// a region sends a report after it has received the answer to the one before it, so
// the counters in it are no older than that answer.
type tallyRegion struct {
	session  uint64
	opened   budget.Instant // about when the session began, not before
	answered budget.Instant // the latest report so far
	// unseen is before any use in this session that is not told yet, of a key that
	// was not told of for a while.
	unseen budget.Instant
}

// next is a report of a session, answered now: what it tells was read at from or
// later.
func (r *tallyRegion) next(session uint64, began, now budget.Instant) (from budget.Instant) {
	from = max(began, r.answered)
	if r.session != session {
		// It began after the last answer within the one before.
		r.session, r.opened, r.unseen = session, now, from
	}
	r.answered = now
	return from
}

// tallyKey is one hot key and what all regions together spent of it.
type tallyKey struct {
	capacity, rate float64 // tokens, tokens a second with rho
	changed        budget.Instant
	busy           busyPeriod
	seen           []seen // by region
}

// seen is what a region last reported of a key.
type seen struct {
	session           uint64
	admitted, offered int64          // cumulative, micro-tokens
	from              budget.Instant // these were read no earlier than this
	told              budget.Instant // and told here
}

// read takes in new counters, told now and read no earlier than from, and returns
// what was admitted and offered since the last, in tokens, and since when.
func (s *seen) read(k budget.KeyReport, from, unseen, now budget.Instant) (admitted, offered float64, since budget.Instant) {
	admitted = float64(max(0, k.Admitted-s.admitted)) / microToken
	offered = float64(max(0, k.Offered-s.offered)) / microToken
	since = s.from
	if unseen.Sub(s.told) >= spacing {
		since = max(since, unseen) // it was left out of reports since: it was not used
	}
	s.admitted, s.offered, s.from, s.told = k.Admitted, k.Offered, from, now
	return admitted, offered, since
}

// tallyRule is the sum over the keys of one rule.
type tallyRule struct {
	admitted, offered []float64 // tokens, by region
	limit             float64   // tokens a second that the keys counted here refill
	latest, before    float64   // excess, tokens: the most since shelf, and of the time before
	inWindow, gain    float64   // of the present window: tokens admitted, the largest gain
	utilisation       float64   // of the last whole window
	lastGain          float64
}

// excess is the most that one key was seen above its limit lately, tokens.
func (r *tallyRule) excess() float64 { return max(r.latest, r.before) }

func newTally(rhoPPM int32, now budget.Instant) *tally {
	return &tally{
		rho: float64(rhoPPM) / 1e6, began: now, window: now, shelf: now,
		keys: map[budget.KeyID]*tallyKey{}, rules: map[uint32]*tallyRule{},
	}
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
		key.seen = reach(key.seen, rep.Region)
		last := &key.seen[rep.Region]
		if last.session != rep.Session {
			*last = seen{session: rep.Session, from: region.unseen} // counters begin at zero
		}
		admitted, offered, spentFrom := last.read(k, readFrom, region.unseen, now)
		t.rule(k.Key.Rule).add(rep.Region, admitted, offered)
		if spentFrom >= key.changed {
			t.rule(k.Key.Rule).judge(key, admitted, spentFrom, now)
		}
	}
	if len(rep.Keys) < fullReport && readFrom.Sub(region.opened) >= spacing {
		region.unseen = readFrom
	}
}

// key is the record of a key whose limit k tells. After a change of the limit what
// was spent before it says nothing of the new one, and a region may report by the
// old one for a while: the count begins again with each change that is seen.
func (t *tally) key(k budget.KeyReport, now budget.Instant) *tallyKey {
	capacity := float64(k.Limit.Capacity) / microToken
	rate := (float64(k.Limit.Rate) + float64(k.Limit.RateFrac)/1e6) / microToken * (1 + t.rho)
	key := t.keys[k.Key]
	switch {
	case key == nil:
		key = &tallyKey{capacity: capacity, rate: rate}
		t.keys[k.Key] = key
	case key.capacity != capacity || key.rate != rate:
		key.capacity, key.rate, key.changed, key.busy = capacity, rate, now, busyPeriod{}
	}
	return key
}

func (t *tally) rule(number uint32) *tallyRule {
	r := t.rules[number]
	if r == nil {
		r = &tallyRule{}
		t.rules[number] = r
	}
	return r
}

func (r *tallyRule) add(region int, admitted, offered float64) {
	r.admitted, r.offered = reach(r.admitted, region), reach(r.offered, region)
	r.admitted[region] += admitted
	r.offered[region] += offered
	r.inWindow += admitted
}

// judge notes how far a key is above its limit with tokens spent between two
// instants.
func (r *tallyRule) judge(key *tallyKey, tokens float64, from, now budget.Instant) {
	key.busy.spend(tokens, key.rate, from, now)
	r.latest = max(r.latest, key.busy.over-key.capacity)
	if possible := key.capacity + key.rate*now.Sub(key.busy.since).Seconds(); possible > 0 {
		r.gain = max(r.gain, key.busy.tokens/possible)
	}
}

// tick closes the window when it is over, and forgets keys that are cold again and
// rules that have none left to count.
func (t *tally) tick(now budget.Instant, hot func(budget.KeyID) bool, kept func(rule uint32) bool) {
	elapsed := now.Sub(t.window)
	if elapsed < utilisationWindow {
		return
	}
	t.window = now
	limits := t.limits()
	for id := range t.keys {
		if !hot(id) {
			delete(t.keys, id)
		}
	}
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
		if possible := limits[number] * elapsed.Seconds(); possible > 0 {
			r.utilisation = r.inWindow / possible
		}
		r.inWindow, r.gain = 0, 0
		if aged {
			r.latest, r.before = 0, r.latest
		}
	}
}

// limits is what the keys counted here refill, tokens a second by rule number.
func (t *tally) limits() map[uint32]float64 {
	out := map[uint32]float64{}
	for id, key := range t.keys {
		out[id.Rule] += key.rate / (1 + t.rho)
	}
	return out
}

// sums is a copy of what is counted, by rule number.
func (t *tally) sums() map[uint32]tallyRule {
	limits := t.limits()
	out := make(map[uint32]tallyRule, len(t.rules))
	for number, r := range t.rules {
		sum := *r
		sum.admitted, sum.offered, sum.limit = slices.Clone(r.admitted), slices.Clone(r.offered), limits[number]
		out[number] = sum
	}
	return out
}

// reach makes room for the region's index.
func reach[T any](s []T, region int) []T {
	if missing := region + 1 - len(s); missing > 0 {
		return append(s, make([]T, missing)...)
	}
	return s
}
