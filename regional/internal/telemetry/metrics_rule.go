package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"aliquot/regional/internal/modes"
)

// ruleCounters holds the counters of one rule. Each counter is looked up once, because a look-up by
// labels costs more than a decision does.
type ruleCounters struct {
	decisions         [len(outcomes)][len(modeLabels)]atomic.Pointer[prometheus.Counter]
	offered, admitted atomic.Pointer[prometheus.Counter]
}

// outcomes and modeLabels are the values of the labels.
var (
	outcomes   = [...]string{"allowed", "denied", "shadow_denied"}
	modeLabels = [...]string{
		modes.Store, modes.Local, modes.Emergency, modes.FailOpen, modes.FailClosed, modes.AllowList, modes.BlockList, modes.NoRule, modes.NoRulesYet,
	}
)

func indexOf(words []string, word string) int {
	for i, w := range words {
		if w == word {
			return i
		}
	}
	return -1
}

// countersOf returns a rule's counters, or nil if the rule is not in force.
func (m *Metrics) countersOf(rule string) *ruleCounters {
	if known := m.rules.Load(); known != nil {
		return (*known)[rule]
	}
	return nil
}

// counter returns the counter that at points to, and looks it up if at is empty. It returns nil if
// the rule is gone, so that labels stay within the configured set.
func (m *Metrics) counter(at *atomic.Pointer[prometheus.Counter], vec *prometheus.CounterVec, rule string, labels ...string) prometheus.Counter {
	if c := at.Load(); c != nil {
		return *c
	}
	m.rulesMu.RLock()
	defer m.rulesMu.RUnlock()
	if m.goneRules[rule] {
		return nil
	}
	c := vec.WithLabelValues(append([]string{m.Region, rule}, labels...)...)
	at.Store(&c)
	return c
}

// addRow adds the decisions of one row, whose rule is "" if none matched. It leaves out decisions
// that were under way when their rule was removed.
func (m *Metrics) addRow(row *batchRow) {
	if m == nil {
		return
	}
	if row.mode == modes.Local {
		m.localHits.Add(float64(row.decisions))
	}
	known, o, in := m.countersOf(row.rule), indexOf(outcomes[:], row.outcome), indexOf(modeLabels[:], row.mode)
	if known == nil || o < 0 || in < 0 {
		return
	}
	if c := m.counter(&known.decisions[o][in], m.decisions, row.rule, row.outcome, row.mode); c != nil {
		c.Add(float64(row.decisions))
	}
	m.addTokens(&known.offered, m.offered, row.rule, row.offered)
	m.addTokens(&known.admitted, m.admitted, row.rule, row.admitted)
}

// addTokens adds tokens to a counter of a rule. It creates no counter for 0 tokens.
func (m *Metrics) addTokens(at *atomic.Pointer[prometheus.Counter], vec *prometheus.CounterVec, rule string, tokens float64) {
	if tokens == 0 {
		return
	}
	if c := m.counter(at, vec, rule); c != nil {
		c.Add(tokens)
	}
}

// UseRules makes the metrics count the rules with these ids, and drops the series of the rules that
// the latest change removed. The rule "" stands for decisions in which no limit took part.
func (m *Metrics) UseRules(ids []string, gone map[string]bool) {
	m.rulesMu.Lock()
	defer m.rulesMu.Unlock()
	known := map[string]*ruleCounters{"": m.countersOf("")}
	if known[""] == nil {
		known[""] = &ruleCounters{}
	}
	for _, id := range ids {
		if known[id] = m.countersOf(id); known[id] == nil {
			known[id] = &ruleCounters{}
		}
	}
	m.goneRules = gone
	m.rules.Store(&known)
	for id := range gone {
		for _, of := range []*prometheus.CounterVec{m.decisions, m.offered, m.admitted, m.coolDowns, m.autoBlocks} {
			of.DeletePartialMatch(prometheus.Labels{"rule": id})
		}
	}
}
