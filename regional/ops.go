package regional

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// readiness is the body of /readyz.
type readiness struct {
	Ready                 bool    `json:"ready"`
	Region                string  `json:"region"`
	Phase                 string  `json:"phase"`
	LeaseRemainingSeconds float64 `json:"lease_remaining_seconds"`
	Session               bool    `json:"session"`
	RulesVersion          uint64  `json:"rules_version"`
	HotKeys               int     `json:"hot_keys"`
	StoreReached          bool    `json:"store_reached"`
	Reason                string  `json:"reason,omitempty"`
}

// opsHandler serves metrics and health.
func opsHandler(d *Daemon, reg *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		now := d.readiness()
		w.Header().Set("Content-Type", "application/json")
		if !now.Ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(now) // the client has gone: nobody to tell
	})
	d.conduct.handle(mux, d.policies, d.cfg.Region)
	return mux
}

// readiness: a region is ready once it has rules to decide by, or a session.
func (d *Daemon) readiness() readiness {
	info := d.auth.info()
	r := readiness{
		Region: d.cfg.Region, Phase: info.Phase.String(), Session: info.SessionOpen,
		LeaseRemainingSeconds: info.LeaseRemaining.Seconds(), HotKeys: info.HotKeys,
		RulesVersion: d.policies.load().text.Version, StoreReached: info.StoreEpoch != "",
	}
	r.Ready = d.policies.ready() || info.SessionOpen
	if !r.Ready {
		r.Reason = "no rules yet: no coordinator has answered since the start, and there is no state file with rules"
	}
	return r
}
