package regional

import (
	"github.com/prometheus/client_golang/prometheus"

	"aliquot/budget"
	"aliquot/regional/internal/telemetry"
)

// watchAuthority exports the values of the state machine and of the chunks, which are read at each scrape.
func watchAuthority(m *telemetry.Metrics, auth *authority, reg prometheus.Registerer) {
	lease := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aliquot_lease_remaining_seconds", Help: "Until this region's lease ends; 0 without one.",
		ConstLabels: prometheus.Labels{"region": m.Region},
	}, func() float64 { return auth.info().LeaseRemaining.Seconds() })
	hot := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aliquot_hot_keys", Help: "Keys with a share of their own in this region.",
	}, func() float64 { return float64(auth.info().HotKeys) })
	lost := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "aliquot_chunks_lost_total",
		Help: "Borrowed tokens that were neither spent nor returned in time, counted as chunks: a call failed, or this process had no CPU.",
	}, func() float64 { return float64(auth.local.Lost.Load()) })
	borrowed := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aliquot_local_keys_active", Help: "Keys for which tokens are borrowed, or which memory decided a moment ago.",
	}, func() float64 { return float64(auth.local.ActiveKeys()) })
	known := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aliquot_local_keys", Help: "Keys that memory can decide, at most 65,536.",
	}, func() float64 { return float64(auth.local.Keys()) })
	reg.MustRegister(lease, hot, lost, borrowed, known)
	for _, phase := range []budget.Phase{budget.Live, budget.Limbo, budget.CutOff} {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "aliquot_phase",
			Help:        "1 for the phase of the region. live: it enforces its shares. limbo: the smaller of share and floor. floor: its floor.",
			ConstLabels: prometheus.Labels{"region": m.Region, "phase": phase.String()},
		}, func() float64 {
			if auth.info().Phase == phase {
				return 1
			}
			return 0
		}))
	}
}

// watchSession exports for how long the region has been heard without a session. It also exports
// how far the application of shares in the store has come.
func watchSession(m *telemetry.Metrics, r *reporter, reg prometheus.Registerer) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "aliquot_session_seconds_without",
		Help:        "For how long this region has had no session although coordinators answer. 0 with a session, and while none answers.",
		ConstLabels: prometheus.Labels{"region": m.Region},
	}, func() float64 { return r.without().Seconds() }))
	for state, keys := range map[string]func(budget.RegionInfo) int{
		"told":    func(i budget.RegionInfo) int { return i.Applying },
		"applied": func(i budget.RegionInfo) int { return i.Applied },
	} {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "aliquot_apply_keys",
			Help:        "Keys whose shares are being applied in the store: told are all of them, applied are those that are done. 0 while there are none.",
			ConstLabels: prometheus.Labels{"state": state},
		}, func() float64 { return float64(keys(r.auth.info())) }))
	}
}
