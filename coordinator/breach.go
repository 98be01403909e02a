package coordinator

import (
	"log/slog"
	"sync"
	"time"

	"aliquot/budget"
	clusterstate "aliquot/cluster/state"
)

const (
	// breachTokens is from which excess beyond the promise on it counts as broken:
	// floats are exact to far less, and so are the stores.
	breachTokens = 1
	// breachStep is the part of the capacity by which a breach that goes on must grow
	// to be counted again.
	breachStep = 0.1
	// maxBreaches bounds what one report can tell of: it names up to 8192 keys.
	maxBreaches = 16
	// evidenceEvery spaces the log lines about one rule, and maxEvidence bounds those of
	// all rules in that time: a megabyte a day and rule at the most, and ten in all.
	evidenceEvery = time.Minute
	maxEvidence   = 10
)

// breach is a promise that was broken for certain: in the interval more was admitted
// of one key than is allowed.
type breach struct {
	key               budget.KeyID
	from, to          budget.Instant
	admitted, allowed float64 // tokens, in the interval
	capacity, excess  float64 // of what is allowed at once
	rate              float64 // and each second
	regions           []float64
}

// breaks reports whether the key is beyond what is promised, the first time and with
// each tenth of the capacity more.
func (key *tallyKey) breaks() bool {
	beyond := key.above() - key.excess
	if beyond <= 0 {
		key.told = 0
	}
	step := float64(breachTokens)
	if key.told > 0 {
		step = max(step, breachStep*key.capacity)
	}
	if beyond < key.told+step {
		return false
	}
	key.told = beyond
	return true
}

// breach is the evidence as of now.
func (key *tallyKey) breach(now budget.Instant) breach {
	b := breach{
		key: key.id, from: key.busy.since, to: now, admitted: key.busy.tokens,
		capacity: key.capacity, excess: key.excess, rate: key.rate,
		allowed: key.capacity + key.excess + key.rate*now.Sub(key.busy.since).Seconds(),
	}
	for _, s := range key.seen {
		b.regions = append(b.regions, s.busy)
	}
	return b
}

// breachBook counts broken promises by rule number, over all reigns of this node, and
// says which may be logged. Safe for concurrent use.
type breachBook struct {
	mu     sync.Mutex
	counts map[uint32]uint64
	logged map[uint32]time.Time
	minute time.Time // when the present minute of lines began
	lines  int       // in it
}

// count counts a breach, and reports whether there is room in the log for it.
func (b *breachBook) count(rule uint32, now time.Time) (mayLog bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.counts == nil {
		b.counts, b.logged = map[uint32]uint64{}, map[uint32]time.Time{}
	}
	b.counts[rule]++
	if now.Sub(b.minute) >= evidenceEvery {
		b.minute, b.lines = now, 0
	}
	if last, before := b.logged[rule]; before && now.Sub(last) < evidenceEvery || b.lines >= maxEvidence {
		return false
	}
	b.lines++
	b.logged[rule] = now
	return true
}

// of is how often the promise of a rule was broken.
func (b *breachBook) of(rule uint32) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts[rule]
}

// keep forgets the rules that are not in force.
func (b *breachBook) keep(inForce func(rule uint32) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for rule := range b.counts {
		if !inForce(rule) {
			delete(b.counts, rule)
			delete(b.logged, rule)
		}
	}
}

// tellBreaches counts what the tally found, and logs the evidence.
func (r *reign) tellBreaches() {
	for _, b := range r.tally.breaches {
		if now := time.Now(); r.breaches.count(b.key.Rule, now) {
			r.log.Error("the promise of a rule was broken: keep the logs of all daemons", r.evidence(&b, now)...)
		}
	}
	r.tally.breaches = r.tally.breaches[:0]
}

// ruleID is the id of a rule in force.
func (r *reign) ruleID(number uint32) string {
	if rule := r.rules[number]; rule != nil {
		return rule.ID
	}
	return ""
}

// evidence is all that this node knows of a breach.
func (r *reign) evidence(b *breach, now time.Time) []any {
	var index uint64
	r.node.View(func(s *clusterstate.State) { index = s.AppliedIndex })
	wall := func(i budget.Instant) string { return now.Add(-r.now().Sub(i)).UTC().Format(time.RFC3339Nano) }
	out := []any{
		"rule", r.ruleID(b.key.Rule), "key", hashText(b.key), "from", wall(b.from), "to", wall(b.to),
		"admitted", b.admitted, "allowed", b.allowed,
		"capacity", b.capacity, "excess_promised", b.excess, "rate_with_drift", b.rate,
		"epoch", r.epoch, "applied_index", index,
	}
	status, _ := r.machine.Key(b.key)
	var regions []any
	for i := range r.ledger.Config.Regions {
		var attrs []any
		if i < len(b.regions) {
			attrs = append(attrs, "admitted", b.regions[i])
		}
		if i < len(status.Regions) {
			k := &status.Regions[i]
			attrs = append(attrs, "share", fraction(k.Sent.Rate), "burst_share", fraction(k.Sent.Burst),
				"generation", generationText(k.Gen), "acknowledged", k.Acked, "silent", k.Silent)
		}
		regions = append(regions, slog.Group(r.ledger.Config.Regions[i].Name, attrs...))
	}
	return append(out, slog.Group("regions", regions...))
}
