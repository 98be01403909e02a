package coordinator

import (
	"log/slog"
	"sync"
	"time"

	clusterstate "aliquot/cluster/state"

	"aliquot/budget"
	"aliquot/coordinator/internal/audit"
)

const (
	// evidenceEvery spaces the log lines about one rule, and maxEvidence bounds those of
	// all rules in that time: a megabyte a day and rule at the most, and ten in all.
	breachLogEvery = time.Minute
	maxBreachLines = 10
)

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
	for _, b := range l.audit.TakeBreaches() {
		if now := time.Now(); l.breaches.count(b.Key.Rule, now) {
			l.log.Error("the promise of a rule was broken: keep the logs of all daemons", l.breachAttrs(&b, now)...)
		}
	}
}

// ruleID is the id of a rule in force.
func (l *leaderLoop) ruleID(number uint32) string {
	if rule := l.rules[number]; rule != nil {
		return rule.ID
	}
	return ""
}

// evidence is all that this node knows of a breach.
func (l *leaderLoop) breachAttrs(b *audit.Breach, now time.Time) []any {
	var index uint64
	l.node.View(func(s *clusterstate.State) { index = s.AppliedIndex })
	wall := func(i budget.Instant) string { return now.Add(-l.now().Sub(i)).UTC().Format(time.RFC3339Nano) }
	out := []any{
		"rule", l.ruleID(b.Key.Rule), "key", hashText(b.Key), "from", wall(b.From), "to", wall(b.To),
		"admitted", b.Admitted, "allowed", b.Allowed,
		"capacity", b.Capacity, "excess_promised", b.Excess, "rate_with_drift", b.Rate,
		"epoch", l.epoch, "applied_index", index,
	}
	status, _ := l.machine.Key(b.Key)
	var regions []any
	for i := range l.ledger.Config.Regions {
		var attrs []any
		if i < len(b.ByRegion) {
			attrs = append(attrs, "admitted", b.ByRegion[i])
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
