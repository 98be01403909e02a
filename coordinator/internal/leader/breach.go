package leader

import (
	"log/slog"
	"strconv"
	"sync"
	"time"

	clusterstate "aliquot/cluster/state"

	"aliquot/budget"
	"aliquot/coordinator/internal/audit"
)

const (
	// breachLogEvery is the time between two log lines about one rule. maxBreachLines bounds the lines of
	// all rules in a minute. Together they allow a megabyte a day for one rule and ten for all.
	breachLogEvery = time.Minute
	maxBreachLines = 10
)

// breachCounter counts broken promises by rule number, over all epochs of this node. The zero value has
// counted none. It is safe for concurrent use.
type breachCounter struct {
	mu     sync.Mutex
	counts map[uint32]uint64
}

// add counts one breach.
func (b *breachCounter) add(rule uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.counts == nil {
		b.counts = map[uint32]uint64{}
	}
	b.counts[rule]++
}

// of returns how often the promise of a rule was broken.
func (b *breachCounter) of(rule uint32) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts[rule]
}

// keep forgets the rules that are not in force.
func (b *breachCounter) keep(inForce func(rule uint32) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for rule := range b.counts {
		if !inForce(rule) {
			delete(b.counts, rule)
		}
	}
}

// logBreaches counts the breaches that the audit found, and logs the evidence.
func (l *Loop) logBreaches() {
	for _, b := range l.audit.TakeBreaches() {
		l.breaches.add(b.Key.Rule)
		if now := time.Now(); l.breachLog.Allow(strconv.FormatUint(uint64(b.Key.Rule), 10), now) {
			l.log.Error("the promise of a rule was broken: keep the logs of all daemons", l.breachAttrs(&b, now)...)
		}
	}
}

// ruleID returns the id of a rule in force; "" if the number is not in force.
func (l *Loop) ruleID(number uint32) string {
	if rule := l.rules[number]; rule != nil {
		return rule.ID
	}
	return ""
}

// breachAttrs returns everything that this node knows of a breach, as attributes of a log line.
func (l *Loop) breachAttrs(b *audit.Breach, now time.Time) []any {
	var index uint64
	l.node.View(func(s *clusterstate.State) { index = s.AppliedIndex })
	wall := func(i budget.Instant) string { return now.Add(-l.now().Sub(i)).UTC().Format(time.RFC3339Nano) }
	out := []any{
		"rule", l.ruleID(b.Key.Rule), "key", HashText(b.Key), "from", wall(b.From), "to", wall(b.To),
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
			attrs = append(attrs, "share", Fraction(k.Sent.Rate), "burst_share", Fraction(k.Sent.Burst),
				"generation", GenerationText(k.Gen), "acknowledged", k.Acked, "silent", k.Silent)
		}
		regions = append(regions, slog.Group(l.ledger.Config.Regions[i].Name, attrs...))
	}
	return append(out, slog.Group("regions", regions...))
}
