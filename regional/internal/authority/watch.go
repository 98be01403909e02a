package authority

import (
	"github.com/prometheus/client_golang/prometheus"

	"aliquot/budget"
	"aliquot/regional/internal/telemetry"
)

// Watch exports the values of the state machine and of the chunks, which are read at each scrape.
func (a *Authority) Watch(m *telemetry.Metrics, reg prometheus.Registerer) {
	lease := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aliquot_lease_remaining_seconds", Help: "Until this region's lease ends; 0 without one.",
		ConstLabels: prometheus.Labels{"region": m.Region},
	}, func() float64 { return a.Info().LeaseRemaining.Seconds() })
	hot := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aliquot_hot_keys", Help: "Keys with a share of their own in this region.",
	}, func() float64 { return float64(a.Info().HotKeys) })
	lost := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "aliquot_chunks_lost_total",
		Help: "Borrowed tokens that were neither spent nor returned in time, counted as chunks: a call failed, or this process had no CPU.",
	}, func() float64 { return float64(a.Local.LostChunks.Load()) })
	borrowed := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aliquot_local_keys_active", Help: "Keys for which tokens are borrowed, or which memory decided a moment ago.",
	}, func() float64 { return float64(a.Local.ActiveKeys()) })
	known := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aliquot_local_keys", Help: "Keys that memory can decide, at most 65,536.",
	}, func() float64 { return float64(a.Local.Keys()) })
	reg.MustRegister(lease, hot, lost, borrowed, known)
	for _, phase := range []budget.Phase{budget.Live, budget.Limbo, budget.CutOff} {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "aliquot_phase",
			Help:        "1 for the phase of the region. live: it enforces its shares. limbo: the smaller of share and floor. floor: its floor.",
			ConstLabels: prometheus.Labels{"region": m.Region, "phase": phase.String()},
		}, func() float64 {
			if a.Info().Phase == phase {
				return 1
			}
			return 0
		}))
	}
}
