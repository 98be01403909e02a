package api

import "github.com/prometheus/client_golang/prometheus"

// Requests of a descriptor that are ignored: a limit of its own, and a refund.
const (
	ignoredLimit = iota
	ignoredRefund
	ignoredKinds
)

// rlsMetrics counts the calls of Envoy's rate limit protocol. The outcomes of their descriptors are
// counted with all other decisions.
type rlsMetrics struct {
	ok, overLimit, failed prometheus.Counter
	ignored               [ignoredKinds]prometheus.Counter
}

func newRLSMetrics(region string, reg prometheus.Registerer) rlsMetrics {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aliquot_rls_requests_total",
		Help: "Calls of Envoy's rate limit protocol, by the code for the whole request. The code error means that the call failed.",
	}, []string{"region", "code"})
	ignored := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aliquot_rls_ignored_total",
		Help: "Descriptors with a request that was ignored: a limit of their own (limit), or hits to return (refund).",
	}, []string{"region", "what"})
	reg.MustRegister(requests, ignored)
	return rlsMetrics{
		ok: requests.WithLabelValues(region, "ok"), overLimit: requests.WithLabelValues(region, "over_limit"), failed: requests.WithLabelValues(region, "error"),
		ignored: [ignoredKinds]prometheus.Counter{
			ignoredLimit: ignored.WithLabelValues(region, "limit"), ignoredRefund: ignored.WithLabelValues(region, "refund"),
		},
	}
}

// answered counts a call by its outcome.
func (m *rlsMetrics) answered(err error, over bool) {
	switch {
	case err != nil:
		m.failed.Inc()
	case over:
		m.overLimit.Inc()
	default:
		m.ok.Inc()
	}
}
