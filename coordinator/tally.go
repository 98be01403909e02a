package coordinator

import (
	"slices"
	"time"

	"aliquot/budget"
)

const (
	// utilisationWindow is what global_limit_utilisation_ratio looks back over:
	// long against a report, short against a dashboard.
	utilisationWindow = 10 * time.Second
	// reportLag is how late the usage of one region may be known here: a report
	// every second, held and on its way. The observed excess allows for what a limit
	// refills in this time, else the order in which reports arrive would look like
	// an excess.
	reportLag = 2 * time.Second
	// microToken is one whole token in micro-tokens.
	microToken = 1e6
)

// tally adds up, for metrics alone, what regions report of hot keys. It counts in
// floats: nothing is decided by it. Not safe for concurrent use.
type tally struct {
	regions int
	keys    map[budget.KeyID]*tallyKey
	rules   map[uint32]*tallyRule
	window  budget.Instant // when the present window began
}

// tallyKey is one hot key: an ideal bucket of the whole limit that every reported
// admission is taken from. Below zero, more was admitted than the limit allows.
type tallyKey struct {
	capacity, rate float64 // tokens, tokens a second
	level          float64
	at             budget.Instant
	seen           []seen // by region
}

// seen is the cumulative counter last reported, of a session.
type seen struct {
	session  uint64
	admitted int64
}

// tallyRule is the sum over the keys of one rule.
type tallyRule struct {
	admitted    []float64 // tokens, by region
	excess      float64   // tokens, the most ever seen
	inWindow    float64   // tokens admitted in the present window
	utilisation float64   // of the last whole window
}

func newTally(regions int, now budget.Instant) *tally {
	return &tally{
		regions: regions, window: now,
		keys: map[budget.KeyID]*tallyKey{}, rules: map[uint32]*tallyRule{},
	}
}

// fold takes in one accepted report; hot tells which keys the ledger has, so that
// a report cannot make the tally grow beyond it.
func (t *tally) fold(rep budget.Report, now budget.Instant, hot func(budget.KeyID) bool) {
	for _, k := range rep.Keys {
		if k.Gen == (budget.Gen{}) || k.Cold || k.Limit.Capacity <= 0 || !hot(k.Key) {
			continue
		}
		key := t.key(k, now)
		last := &key.seen[rep.Region]
		if last.session != rep.Session {
			*last = seen{session: rep.Session}
		}
		admitted := float64(max(0, k.Admitted-last.admitted)) / microToken
		last.admitted = k.Admitted

		rule := t.rule(k.Key.Rule)
		rule.admitted[rep.Region] += admitted
		rule.inWindow += admitted
		rule.excess = max(rule.excess, key.spend(admitted, now))
	}
}

func (t *tally) key(k budget.KeyReport, now budget.Instant) *tallyKey {
	key := t.keys[k.Key]
	if key == nil {
		key = &tallyKey{level: float64(k.Limit.Capacity) / microToken, at: now, seen: make([]seen, t.regions)}
		t.keys[k.Key] = key
	}
	key.capacity = float64(k.Limit.Capacity) / microToken
	key.rate = (float64(k.Limit.Rate) + float64(k.Limit.RateFrac)/1e6) / microToken
	return key
}

// spend refills the ideal bucket to now, takes the tokens, and returns how far it
// is overdrawn beyond what late reports explain.
func (k *tallyKey) spend(tokens float64, now budget.Instant) float64 {
	k.level = min(k.capacity, k.level+k.rate*now.Sub(k.at).Seconds()) - tokens
	k.at = now
	return max(0, -k.level-k.rate*reportLag.Seconds())
}

func (t *tally) rule(number uint32) *tallyRule {
	r := t.rules[number]
	if r == nil {
		r = &tallyRule{admitted: make([]float64, t.regions)}
		t.rules[number] = r
	}
	return r
}

// tick closes the window when it is over, and forgets keys that are cold again and
// rules that have none left to count.
func (t *tally) tick(now budget.Instant, hot func(budget.KeyID) bool, kept func(rule uint32) bool) {
	elapsed := now.Sub(t.window)
	if elapsed < utilisationWindow {
		return
	}
	t.window = now
	possible := map[uint32]float64{}
	for id, key := range t.keys {
		possible[id.Rule] += key.rate * elapsed.Seconds()
		if !hot(id) {
			delete(t.keys, id)
		}
	}
	for number, r := range t.rules {
		if !kept(number) {
			delete(t.rules, number)
			continue
		}
		r.utilisation = 0
		if possible[number] > 0 {
			r.utilisation = r.inWindow / possible[number]
		}
		r.inWindow = 0
	}
}

// sums is a copy of what is counted, by rule number.
func (t *tally) sums() map[uint32]tallyRule {
	out := make(map[uint32]tallyRule, len(t.rules))
	for number, r := range t.rules {
		sum := *r
		sum.admitted = slices.Clone(r.admitted)
		out[number] = sum
	}
	return out
}
