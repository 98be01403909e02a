package coordinator

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"aliquot/cluster"
)

const (
	// readyLag is how far behind the log a node may be and still be ready.
	readyLag  = 2 * time.Second
	readyPoll = 20 * time.Millisecond
	// maxScrapes bounds concurrent scrapes: each walks the ledger.
	maxScrapes = 3
)

// readiness returns a check. Its error is nil if a leader is known and this node applies, within
// readyLag, everything that was committed when the check began.
func readiness(node *cluster.Node) func(context.Context) error {
	return func(ctx context.Context) error {
		s := node.Status()
		switch {
		case s.ClusterID == "":
			return fmt.Errorf("not a member of a cluster yet (raft: %s); see --join and --bootstrap-expect", s.State)
		case s.LeaderID == "":
			return fmt.Errorf("no leader is known (raft: %s, term %d); a majority of the coordinators must be up", s.State, s.Term)
		}
		return catchUp(ctx, node, s.CommitIndex)
	}
}

// catchUp waits until the node has applied the log entry target, for readyLag at most.
func catchUp(ctx context.Context, node *cluster.Node, target uint64) error {
	ctx, cancel := context.WithTimeout(ctx, readyLag)
	defer cancel()
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	for {
		applied := node.Status().AppliedIndex
		if applied >= target {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("applied %d of %d committed log entries, more than %s behind", applied, target, readyLag)
		case <-poll.C:
		}
	}
}

// opsHandler serves metrics and health for operators.
func opsHandler(reg *prometheus.Registry, ready func(context.Context) error) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := ready(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ready\n")
	})
	return limitBody(mux)
}
