package regional

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"aliquot/budget"
	"aliquot/internal/rpc"
)

// readiness is the JSON body of /readyz. StoreReached: the store has answered since the start.
// StoreAnswers: it answers at present.
type readiness struct {
	Ready                 bool    `json:"ready"`
	Region                string  `json:"region"`
	Phase                 string  `json:"phase"`
	LeaseRemainingSeconds float64 `json:"lease_remaining_seconds"`
	Session               bool    `json:"session"`
	RulesVersion          uint64  `json:"rules_version"`
	HotKeys               int     `json:"hot_keys"`
	StoreReached          bool    `json:"store_reached"`
	StoreAnswers          bool    `json:"store_answers"`
	Reason                string  `json:"reason,omitempty"`
}

// opsHandler serves metrics, health, readiness and the state of keys and clients, which web pages of
// other origins may not read.
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
		_ = json.NewEncoder(w).Encode(now) // an error means that the client has gone
	})
	keys := http.NewServeMux()
	d.keys.Handle(keys, d.policies, d.cfg.Region)
	keys.HandleFunc("GET /store", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(d.storePage(r.Context())) // an error means that the client has gone
	})
	mux.Handle("/", rpc.Browsers(d.cfg.hosts(), keys))
	return mux
}

// readiness returns the body of /readyz. A daemon is ready once it knows its rules, or knows that there
// are none, until it stops. A store that does not answer makes it not ready only if another daemon of
// the region is known, or may exist, that clients can ask. Otherwise each rule's on_redis_failure is
// better than no limit.
func (d *Daemon) readiness() readiness {
	info := d.auth.Info()
	r := readiness{
		Region: d.cfg.Region, Phase: info.Phase.String(), Session: info.SessionOpen,
		LeaseRemainingSeconds: info.LeaseRemaining.Seconds(), HotKeys: info.HotKeys,
		RulesVersion: d.policies.Load().Text.Version, StoreReached: info.StoreEpoch != "",
	}
	r.StoreAnswers = r.StoreReached && !d.storeDown.Load()
	switch {
	case d.drainer.draining():
		r.Reason = "stopping"
	case !d.policies.Load().Known():
		r.Reason = d.session.WithoutRules()
	case r.StoreAnswers && !d.others.Spends():
		r.Reason = "another daemon of this region may be admitting without the store, or a coordinator has not said yet that this one may spend beside it"
	case !d.others.Alone() && d.storeDown.Load():
		r.Reason = "the store does not answer, and another daemon of this region is known, which may have it"
	case d.session.Second() && !r.StoreAnswers:
		r.Reason = "another daemon of this region is heard, and the store does not answer this one"
	case !r.StoreReached && !d.session.HolderKnown() && info.Phase != budget.CutOff:
		r.Reason = "the store has not answered since the start, nor has a coordinator said whether another daemon of this region is heard"
	case !r.StoreAnswers:
		// No session opens without the store.
	default:
		r.Reason = d.session.WithoutSession(info)
	}
	r.Ready = r.Reason == ""
	return r
}
