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
	minBreach = 1
	// breachStep is the part of the capacity by which a breach that goes on must grow
	// to be counted again.
	breachStep = 0.1
	// maxBreaches bounds what one report can tell of: it names up to 8192 keys.
	maxBreaches = 16
	// evidenceEvery spaces the log lines about one rule, and maxEvidence bounds those of
	// all rules in that time: a megabyte a day and rule at the most, and ten in all.
	breachLogEvery = time.Minute
	maxBreachLines = 10
)

// breach is a promise that was broken for certain: in the interval more was admitted
// of one key than is allowed.
type breach struct {
	key               budget.KeyID
	from, to          budget.Instant
	admitted, allowed float64 // tokens, in the interval
	capacity, excess  float64 // of what is allowed at once
	rate              float64 // and each second
	byRegion          []float64
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
func (key *keyRecord) breach(now budget.Instant) breach {
	b := breach{
		key: key.id, from: key.busy.since, to: now, admitted: key.busy.tokens,
		capacity: key.capacity, excess: key.promisedExcess, rate: key.rate,
		allowed: key.capacity + key.promisedExcess + key.rate*now.Sub(key.busy.since).Seconds(),
	}
	for _, s := range key.counters {
		b.byRegion = append(b.byRegion, s.inBusyPeriod)
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
	if now.Sub(b.minute) >= breachLogEvery {
		b.minute, b.lines = now, 0
	}
	if last, before := b.logged[rule]; before && now.Sub(last) < breachLogEvery || b.lines >= maxBreachLines {
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
func (l *leaderLoop) logBreaches() {
	for _, b := range l.audit.breaches {
		if now := time.Now(); l.breaches.count(b.key.Rule, now) {
			l.log.Error("the promise of a rule was broken: keep the logs of all daemons", l.breachAttrs(&b, now)...)
		}
	}
	l.audit.breaches = l.audit.breaches[:0]
}

// ruleID is the id of a rule in force.
func (l *leaderLoop) ruleID(number uint32) string {
	if rule := l.rules[number]; rule != nil {
		return rule.ID
	}
	return ""
}

// evidence is all that this node knows of a breach.
func (l *leaderLoop) breachAttrs(b *breach, now time.Time) []any {
	var index uint64
	l.node.View(func(s *clusterstate.State) { index = s.AppliedIndex })
	wall := func(i budget.Instant) string { return now.Add(-l.now().Sub(i)).UTC().Format(time.RFC3339Nano) }
	out := []any{
		"rule", l.ruleID(b.key.Rule), "key", hashText(b.key), "from", wall(b.from), "to", wall(b.to),
		"admitted", b.admitted, "allowed", b.allowed,
		"capacity", b.capacity, "excess_promised", b.excess, "rate_with_drift", b.rate,
		"epoch", l.epoch, "applied_index", index,
	}
	status, _ := l.machine.Key(b.key)
	var regions []any
	for i := range l.ledger.Config.Regions {
		var attrs []any
		if i < len(b.byRegion) {
			attrs = append(attrs, "admitted", b.byRegion[i])
		}
		if i < len(status.Regions) {
			k := &status.Regions[i]
			attrs = append(attrs, "share", fraction(k.Sent.Rate), "burst_share", fraction(k.Sent.Burst),
				"generation", generationText(k.Gen), "acknowledged", k.Acked, "silent", k.Silent)
		}
		regions = append(regions, slog.Group(l.ledger.Config.Regions[i].Name, attrs...))
	}
	return append(out, slog.Group("regions", regions...))
}
