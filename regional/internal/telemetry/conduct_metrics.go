package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"aliquot/internal/abuse"
)

// conduct makes the metrics of clients that do not wait, and of their connections.
func (m *Metrics) conduct(reg prometheus.Registerer) {
	m.coolDowns = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aliquot_cool_downs_total", Help: "Cool-downs begun: the rule holds a client back that asked before it was told to.",
	}, []string{"region", "rule"})
	m.autoBlocks = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aliquot_auto_blocks_total", Help: "Blocks begun by a rule's auto_block.",
	}, []string{"region", "rule"})
	m.Throttled = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "aliquot_throttled_answers_total", Help: "Denials that were delayed, on connections that heard nothing else.",
	})
	m.ThrottleEnds = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "aliquot_throttled_connections_ended_total", Help: "Connections that were ended because too many answers were delayed already.",
	})
	reg.MustRegister(m.coolDowns, m.autoBlocks, m.Throttled, m.ThrottleEnds)
}

// HeldBack counts a cool-down or a block of a rule when it begins.
func (m *Metrics) HeldBack(rule string, s abuse.State) {
	of := m.coolDowns
	if s == abuse.Blocked {
		of = m.autoBlocks
	}
	m.rulesMu.RLock()
	defer m.rulesMu.RUnlock()
	if !m.goneRules[rule] {
		of.WithLabelValues(m.Region, rule).Inc()
	}
}
