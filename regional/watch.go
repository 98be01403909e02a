package regional

import (
	"github.com/prometheus/client_golang/prometheus"

	"aliquot/budget"
	"aliquot/regional/internal/telemetry"
)

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
		}, func() float64 { return float64(keys(r.auth.Info())) }))
	}
}
