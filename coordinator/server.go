package coordinator

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"

	"aliquot/budget"
	"aliquot/internal/rpc"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
	"aliquot/rules"
)

// Limits of one message after decompression.
const (
	maxRequestBytes = 1 << 20
	// maxRulesBytes is the largest rules file (4 MiB) with its envelope.
	maxRulesBytes  = 5 << 20
	maxReportBytes = 8 << 20
	// maxHelloBytes holds a full hot table: 200,000 keys of some 60 bytes.
	maxHelloBytes = 32 << 20
	// maxHelloParts bounds the messages inside a Hello: a full hot table and a quarter more, with five
	// messages for a key. maxReportParts does so for a report's keys and the result of a plan.
	maxHelloParts  = 5 * (budget.MaxHotKeys + budget.MaxHotKeys/4)
	maxReportParts = 200_000
	// maxEditParts bounds the messages inside an edit of as many entries as may exist, each named twice.
	maxEditParts = 2*rules.MaxEntries + 100
	// maxAnswerBytes bounds an answer of the leader: a Hello's actions and rules.
	maxAnswerBytes = 32 << 20
	// maxMessageMemory bounds the memory of messages in bytes, once for LeaseService and once for all
	// others. At most maxQueued calls wait for memory, each for queueWait at most.
	maxMessageMemory = 64 << 20
	maxQueued        = 1024
	queueWait        = 5 * time.Second
	// bodyTimeout ends slow request bodies. The largest body takes 26 s at 10 Mbit/s.
	bodyTimeout = 30 * time.Second
)

// services are the services on --listen.
type services struct {
	budgets *budgetService
	rules   *ruleService
	regions *regionService
	lease   *leaseService
	cluster *clusterService
}

// handler returns the handler of the services, health, reflection and REST.
func (s services) handler(ready func(context.Context) error) http.Handler {
	mux := http.NewServeMux()
	options := connect.WithHandlerOptions(rpc.JSONCodec(), connect.WithConditionalHandlerOptions(readLimit))
	mux.Handle(aliquotv1connect.NewBudgetServiceHandler(s.budgets, options))
	mux.Handle(aliquotv1connect.NewRuleServiceHandler(s.rules, options, rpc.CountedCodecs(maxEditParts)))
	mux.Handle(aliquotv1connect.NewRegionServiceHandler(s.regions, options))
	path, lease := aliquotv1connect.NewLeaseServiceHandler(s.lease, options, connect.WithConditionalHandlerOptions(partLimit))
	mux.Handle(path, rpc.Uncompressed(lease))
	mux.Handle(aliquotv1connect.NewClusterServiceHandler(s.cluster, options))
	names := []string{
		aliquotv1connect.BudgetServiceName, aliquotv1connect.RuleServiceName, aliquotv1connect.RegionServiceName,
		aliquotv1connect.LeaseServiceName, aliquotv1connect.ClusterServiceName,
	}
	small := connect.WithReadMaxBytes(maxRequestBytes)
	mux.Handle(grpchealth.NewHandler(health{ready, names}, small))
	reflector := grpcreflect.NewStaticReflector(names...)
	mux.Handle(grpcreflect.NewHandlerV1(reflector, small))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector, small))
	mux.HandleFunc("GET /rules", s.rules.serveRules)
	mux.HandleFunc("PUT /rules/tier/{tier}", s.rules.putTier)
	mux.HandleFunc("DELETE /rules/tier/{tier}", s.rules.deleteTier)
	mux.HandleFunc("GET /{$}", serveIndex)
	return limitBody(weigh(mux))
}

// weigh bounds the memory of messages that are read or answered. The calls of daemons have a bound
// apart from those of operators, whose rules may be large.
func weigh(next http.Handler) http.Handler {
	leases := rpc.Weigh(rpc.NewGate(maxMessageMemory, maxQueued, queueWait), maxHelloBytes, next)
	others := rpc.Weigh(rpc.NewGate(maxMessageMemory, maxQueued, queueWait), maxRulesBytes, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/"+aliquotv1connect.LeaseServiceName+"/") {
			leases.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	})
}

// readLimit bounds the bytes of a message by its procedure.
func readLimit(spec connect.Spec) []connect.HandlerOption {
	limit := maxRequestBytes
	switch spec.Procedure {
	case aliquotv1connect.RuleServiceApplyRulesProcedure, aliquotv1connect.RuleServicePlanRulesProcedure, aliquotv1connect.RuleServiceEditRulesProcedure:
		limit = maxRulesBytes
	case aliquotv1connect.LeaseServiceReportProcedure:
		limit = maxReportBytes
	case aliquotv1connect.LeaseServiceHelloProcedure:
		limit = maxHelloBytes
	}
	return []connect.HandlerOption{connect.WithReadMaxBytes(limit)}
}

// partLimit bounds the memory that a message of LeaseService needs once it is decoded: an empty key
// takes two bytes in the message and a hundred in memory.
func partLimit(spec connect.Spec) []connect.HandlerOption {
	if spec.Procedure == aliquotv1connect.LeaseServiceHelloProcedure {
		return []connect.HandlerOption{rpc.CountedCodecs(maxHelloParts)}
	}
	return []connect.HandlerOption{rpc.CountedCodecs(maxReportParts)}
}

// limitBody bounds the time that a request's body may take. It leaves streams alone: over HTTP/1.1
// net/http would end them at that deadline.
func limitBody(next http.Handler) http.Handler {
	streams := map[string]bool{
		aliquotv1connect.BudgetServiceWatchBudgetsProcedure: true,
		"/" + grpchealth.HealthV1ServiceName + "/Watch":     true,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !streams[r.URL.Path] {
			// A writer that cannot set a deadline (a test's recorder) has no slow peer.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
			r.Body = rpc.QuietBody(r.Body)
		}
		next.ServeHTTP(w, r)
	})
}

// health answers the gRPC health protocol with the readiness of this node.
type health struct {
	ready func(context.Context) error
	names []string
}

// Check implements grpchealth.Checker.
func (h health) Check(ctx context.Context, req *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	known := req.Service == ""
	for _, name := range h.names {
		known = known || name == req.Service
	}
	if !known {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("unknown service %q", shorten(req.Service)))
	}
	if h.ready(ctx) != nil {
		return &grpchealth.CheckResponse{Status: grpchealth.StatusNotServing}, nil
	}
	return &grpchealth.CheckResponse{Status: grpchealth.StatusServing}, nil
}
