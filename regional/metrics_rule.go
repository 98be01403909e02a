package regional

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"aliquot/limit"
)

// ruleCounters are the counters of one rule, each looked up once: looking one up by its
// labels costs more than a decision does.
type ruleCounters struct {
	decisions         [len(outcomes)][len(modes)]atomic.Pointer[prometheus.Counter]
	offered, admitted atomic.Pointer[prometheus.Counter]
}

// outcomes and modes are the labels' values.
var (
	outcomes = [...]string{"allowed", "denied", "shadow_denied"}
	modes    = [...]string{
		modeStore, modeLocal, modeEmergency, modeFailOpen, modeFailClosed, modeAllowList, modeBlockList, modeNoRule, modeNoRulesYet,
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

// of are a rule's counters; nil for one that is not in force.
func (m *metrics) of(rule string) *ruleCounters {
	if known := m.rules.Load(); known != nil {
		return (*known)[rule]
	}
	return nil
}

// counter is what stands at a place, looked up if it is not there yet; nil if the rule is
// gone: labels stay within what is configured.
func (m *metrics) counter(at *atomic.Pointer[prometheus.Counter], vec *prometheus.CounterVec, rule string, labels ...string) prometheus.Counter {
	if c := at.Load(); c != nil {
		return *c
	}
	m.rulesMu.RLock()
	defer m.rulesMu.RUnlock()
	if m.goneRules[rule] {
		return nil
	}
	c := vec.WithLabelValues(append([]string{m.region, rule}, labels...)...)
	at.Store(&c)
	return c
}

// charged counts what one rule was asked for, and whether that was consumed. A decision
// that was under way when its rule went is not counted.
func (m *metrics) charged(rule string, cost limit.Tokens, consumed bool) {
	if m == nil {
		return
	}
	known := m.of(rule)
	if known == nil {
		return
	}
	tokens := float64(cost) / float64(limit.Token)
	if c := m.counter(&known.offered, m.offered, rule); c != nil {
		c.Add(tokens)
	}
	if !consumed {
		return
	}
	if c := m.counter(&known.admitted, m.admitted, rule); c != nil {
		c.Add(tokens)
	}
}

// decided counts one rule's decision ("" for none). A decision that was under way when
// its rule went is not counted.
func (m *metrics) decided(rule, outcome, mode string) {
	if m == nil {
		return
	}
	if mode == modeLocal {
		m.localHits.Inc()
	}
	known, o, in := m.of(rule), indexOf(outcomes[:], outcome), indexOf(modes[:], mode)
	if known == nil || o < 0 || in < 0 {
		return
	}
	if c := m.counter(&known.decisions[o][in], m.decisions, rule, outcome, mode); c != nil {
		c.Inc()
	}
}

// useRules has the rules of these names counted, and drops the series of those that the
// latest change took away. The rule "" is for what no limit was asked about.
func (m *metrics) useRules(ids []string, gone map[string]bool) {
	m.rulesMu.Lock()
	defer m.rulesMu.Unlock()
	known := map[string]*ruleCounters{"": m.of("")}
	if known[""] == nil {
		known[""] = &ruleCounters{}
	}
	for _, id := range ids {
		if known[id] = m.of(id); known[id] == nil {
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
