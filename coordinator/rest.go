package coordinator

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

const index = `Aliquot coordinator: splits rate limits over regions and keeps their sum at the limit.

  curl http://%[1]s/rules
  curl -X PUT -d '{"limit":500,"capacity":500}' http://%[1]s/rules/tier/pro
  curl -H 'Content-Type: application/json' -d '{}' http://%[1]s/aliquot.v1.ClusterService/GetStatus
  curl -H 'Content-Type: application/json' -d '{}' http://%[1]s/aliquot.v1.BudgetService/ListBudgets

Requests are checked by the regional daemons (LimiterService), not here. Connect, gRPC
and gRPC-Web are spoken on this port, with reflection. Metrics and health are on the
ops port.
`

// serveIndex explains the service to a browser.
func serveIndex(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	fmt.Fprintf(w, index, r.Host)
}

// serveRules serves the rules in force here as they were written, or as JSON with version, author and
// comment if the request accepts that. The version is the ETag. Version 0 is empty: no rules were
// applied yet.
func (s *ruleService) serveRules(w http.ResponseWriter, r *http.Request) {
	res, err := s.GetRules(r.Context(), &aliquotv1.GetRulesRequest{})
	if err != nil {
		serveProblem(w, err)
		return
	}
	tag := etag(res.GetVersion())
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Vary", "Accept")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if wantsJSON(r) {
		serveJSON(w, http.StatusOK, res)
		return
	}
	w.Header().Set("Content-Type", "application/yaml; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = io.WriteString(w, res.GetYaml()) // an error means that the caller has left
}

// wantsJSON reports whether the request names JSON among what it accepts. A request that accepts
// anything gets the file.
func wantsJSON(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		if media, _, err := mime.ParseMediaType(part); err == nil && media == "application/json" {
			return true
		}
	}
	return false
}

// etag returns the ETag of a version of the rules.
func etag(version uint64) string { return `"` + strconv.FormatUint(version, 10) + `"` }

// serveJSON answers with a message in the same JSON as the RPCs.
func serveJSON(w http.ResponseWriter, status int, m proto.Message) {
	body, err := rpc.MarshalJSON(m)
	if err != nil {
		serveProblem(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the caller has left
}
