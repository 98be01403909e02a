package coordinator

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"aliquot/internal/config"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// metrics are counters of events. The collector reads states instead, at each scrape.
type metrics struct {
	rulesFailures prometheus.Counter
	reports       *prometheus.CounterVec
}

// newMetrics returns metrics that are registered with reg.
func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		rulesFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aliquot_rules_reload_failures_total", Help: "Rules refused because they are invalid.",
		}),
		reports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aliquot_reports_total", Help: "Reports taken here as the leader, by what became of them.",
		}, []string{"region", "result"}),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "aliquot_build_info", Help: "Always 1; the labels say what is running.",
	}, []string{"version", "goversion"})
	build.WithLabelValues(config.Version(), runtime.Version()).Set(1)
	reg.MustRegister(m.rulesFailures, m.reports, build)
	return m
}

// countReport counts one report of a declared region.
func (m *metrics) countReport(region string, res *aliquotv1.ReportResponse, err error) {
	result := "answered"
	switch {
	case err != nil:
		result = "refused"
	case res.GetRenew():
		result = "renewed"
	}
	m.reports.WithLabelValues(region, result).Inc()
}
