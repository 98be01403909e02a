package coordinator

import (
	"fmt"
	"io"
	"net/http"
	"strconv"

	"aliquot/cluster"
)

const index = `Aliquot coordinator: splits rate limits over regions and keeps their sum at the limit.

  curl http://%[1]s/rules
  curl -H 'Content-Type: application/json' -d '{}' http://%[1]s/aliquot.v1.ClusterService/GetStatus
  curl -H 'Content-Type: application/json' -d '{}' http://%[1]s/aliquot.v1.BudgetService/ListBudgets

Requests are checked by the regional daemons (LimiterService), not here. Connect, gRPC
and gRPC-Web are spoken on this port, with reflection. Metrics and health are on the
ops port.
`

// serveIndex tells a curious browser what this is.
func serveIndex(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	fmt.Fprintf(w, index, r.Host)
}

// serveYAML is the rules in force here as they were written; their version is the
// ETag. Version 0 is empty: no rules were applied yet.
func (s *ruleService) serveYAML(w http.ResponseWriter, r *http.Request) {
	var version uint64
	var yaml string
	s.node.View(func(state *cluster.State) { version, yaml = state.Rules.Version, state.Rules.YAML })
	tag := `"` + strconv.FormatUint(version, 10) + `"`
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "no-cache")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/yaml; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = io.WriteString(w, yaml) // the caller went away: nobody is left to tell
}
