// Package connections exports how many connections a daemon's listeners have open. It is apart from
// rpc, because other services import rpc through package client without these metrics.
package connections

import (
	"github.com/prometheus/client_golang/prometheus"

	"aliquot/internal/rpc"
)

// Watch exports how many connections each listener has open and how many it may have, by the flag
// that names it. It panics if they are already exported.
func Watch(reg prometheus.Registerer, listeners ...*rpc.Listener) {
	most := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "aliquot_connections_limit", Help: "Connections that a listener may have open. Beyond them it accepts no more.",
	}, []string{"listener"})
	reg.MustRegister(most)
	for _, l := range listeners {
		most.WithLabelValues(l.Flag()).Set(rpc.MaxConnections)
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "aliquot_connections", Help: "Connections that a listener has open.", ConstLabels: prometheus.Labels{"listener": l.Flag()},
		}, func() float64 { return float64(l.Open()) }))
	}
}
