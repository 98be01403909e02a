package regional

import (
	"github.com/prometheus/client_golang/prometheus"

	"aliquot/internal/abuse"
)

// conduct makes the metrics of clients that do not wait, and of their connections.
func (m *metrics) conduct(reg prometheus.Registerer) {
	m.coolDowns = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aliquot_cool_downs_total", Help: "Cool-downs begun: the rule holds a client back that asked before it was told to.",
	}, []string{"region", "rule"})
	m.autoBlocks = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aliquot_auto_blocks_total", Help: "Blocks begun by a rule's auto_block.",
	}, []string{"region", "rule"})
	m.throttled = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "aliquot_throttled_answers_total", Help: "Denials that were delayed, on connections that heard nothing else.",
	})
	m.throttleEnds = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "aliquot_throttled_connections_ended_total", Help: "Connections that were ended because too many answers were delayed already.",
	})
	reg.MustRegister(m.coolDowns, m.autoBlocks, m.throttled, m.throttleEnds)
}

// heldBack counts a cool-down or a block of a rule when it begins.
func (m *metrics) heldBack(rule string, s abuse.State) {
	of := m.coolDowns
	if s == abuse.Blocked {
		of = m.autoBlocks
	}
	m.rulesMu.RLock()
	defer m.rulesMu.RUnlock()
	if !m.goneRules[rule] {
		of.WithLabelValues(m.region, rule).Inc()
	}
}

// watchConduct exports the state of keys and clients, read at each scrape.
func (m *metrics) watchConduct(c *conduct, policies *policies, reg prometheus.Registerer) {
	labels := prometheus.Labels{"region": m.region}
	reg.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "aliquot_hottest_key_checks_per_second", ConstLabels: labels,
			Help: "Checks a second of the key that is checked most here.",
		}, func() float64 {
			for _, k := range c.hot.Top(1, c.now()) {
				return k.Checks
			}
			return 0
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "aliquot_clients_held_back", ConstLabels: labels,
			Help: "Clients in a cool-down or a block of a rule now.",
		}, func() float64 {
			n := 0
			c.clients.Each(policies.load().conductTerms, c.now(), func(abuse.Held) { n++ })
			return float64(n)
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "aliquot_clients_forgotten_total", ConstLabels: labels,
			Help: "Denials of watched rules that were not noted, because there was no room beside clients that are held back.",
		}, func() float64 { return float64(c.clients.Refused()) }),
	)
}
