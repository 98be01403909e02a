package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"aliquot/internal/penalty"
)

// newPenaltyMetrics creates the metrics of clients that do not wait, and of their connections.
func (m *Metrics) newPenaltyMetrics(reg prometheus.Registerer) {
	m.coolDowns = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aliquot_cool_downs_total", Help: "Cool-downs that a rule began: a client asked before the time that it was told.",
	}, []string{"region", "rule"})
	m.autoBlocks = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aliquot_auto_blocks_total", Help: "Blocks that the auto_block of a rule began.",
	}, []string{"region", "rule"})
	m.Throttled = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "aliquot_throttled_answers_total", Help: "Denials that were delayed, because a connection had nothing but denials.",
	})
	m.ThrottleEnds = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "aliquot_throttled_connections_ended_total", Help: "Connections that were ended because too many answers were delayed already.",
	})
	reg.MustRegister(m.coolDowns, m.autoBlocks, m.Throttled, m.ThrottleEnds)
}

// HeldBack counts a cool-down or a block of a rule when it begins.
func (m *Metrics) HeldBack(rule string, s penalty.State) {
	of := m.coolDowns
	if s == penalty.Blocked {
		of = m.autoBlocks
	}
	m.rulesMu.RLock()
	defer m.rulesMu.RUnlock()
	if !m.goneRules[rule] {
		of.WithLabelValues(m.Region, rule).Inc()
	}
}
