// Package service serves what a coordinator offers: the RPC services, the little REST there is, metrics
// and health. It reads the replicated state of package cluster, asks the leader's loop of package
// leader, and forwards changes to the coordinator that leads.
package service

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"aliquot/budget"
	"aliquot/cluster"
	"aliquot/coordinator/internal/daemons"
	"aliquot/coordinator/internal/leader"
	"aliquot/coordinator/internal/plan"
	"aliquot/coordinator/internal/rest"
	"aliquot/internal/config"
	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
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
	// maxAnswerMemory bounds the memory of large answers that are being sent, in the same two parts.
	maxAnswerMemory = 32 << 20
	// answerTimeout is how long each write of an answer may take. The largest answer takes 26 s at 10 Mbit/s.
	answerTimeout = 30 * time.Second
	// bodyTimeout ends slow request bodies. The largest body takes 26 s at 10 Mbit/s.
	bodyTimeout = 30 * time.Second
)

// Config is what the services need. Every field is required.
type Config struct {
	Node       *cluster.Node
	NodeID     string
	Client     *http.Client // for requests to the leader
	Leadership *leader.Leadership
	Index      *KeyIndex
	Registerer prometheus.Registerer
	Stopping   <-chan struct{} // closed to end the watches
}

// New returns the services of one coordinator, with their metrics registered.
func New(c Config) *Services {
	forward := &forwarder{node: c.Node, self: c.NodeID, http: c.Client}
	m, plans := newMetrics(c.Registerer), &plan.Planner{}
	seen := &daemons.Seen{}
	regions := &regionService{node: c.Node, leadership: c.Leadership, forward: forward, daemons: seen}
	rulesService := &ruleService{node: c.Node, leadership: c.Leadership, forward: forward, metrics: m, plans: plans, changes: cluster.NewTurns(), parsing: cluster.NewTurns()}
	return &Services{
		budgets: &budgetService{
			node: c.Node, leadership: c.Leadership, forward: forward, index: c.Index,
			watches: make(chan struct{}, maxWatches), stopping: c.Stopping,
		},
		rules:   rulesService,
		regions: regions,
		lease:   &leaseService{node: c.Node, leadership: c.Leadership, forward: forward, metrics: m, plans: plans, daemons: seen, places: &places{node: c.Node}},
		cluster: &clusterService{node: c.Node, forward: forward, regions: regions, rules: rulesService, timing: cluster.NewTurns()},
	}
}

// Join asks the coordinator at an address to make another one a member of its cluster.
func Join(ctx context.Context, client *http.Client, address string, req *aliquotv1.JoinRequest) error {
	_, err := newPeer(client, address).Join(ctx, req)
	return err
}

// Services are the services on --listen. Make them with New.
type Services struct {
	budgets *budgetService
	rules   *ruleService
	regions *regionService
	lease   *leaseService
	cluster *clusterService
}

// Handler returns the handler of the services, health, reflection and REST.
func (s *Services) Handler(ready func(context.Context) error) http.Handler {
	mux := http.NewServeMux()
	leases := rpc.NewAnswers(rpc.NewShared(maxAnswerMemory, maxQueued, queueWait), answerTimeout)
	others := rpc.NewAnswers(rpc.NewShared(maxAnswerMemory, maxQueued, queueWait), answerTimeout)
	options := connect.WithHandlerOptions(rpc.JSONCodec(), rpc.Received(), rpc.WeighAnswers(), connect.WithConditionalHandlerOptions(readLimit))
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
	rest.Register(mux, s.rules)
	return limitBody(rpc.Refusals(weigh(leases.Before(mux), others.Before(mux))))
}

// weigh bounds the memory of messages that are read, for all peers and for each. The calls of daemons have a bound
// apart from those of operators, whose rules may be large.
func weigh(leases, others http.Handler) http.Handler {
	leases = rpc.WeighByPeer(rpc.NewShared(maxMessageMemory, maxQueued, queueWait), maxHelloBytes, leases)
	others = rpc.WeighByPeer(rpc.NewShared(maxMessageMemory, maxQueued, queueWait), maxRulesBytes, others)
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
			r = rpc.WithBody(r, rpc.QuietBody(r.Body))
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
		Name: "aliquot_build_info", Help: "Always 1. The labels have the versions of the program and of Go.",
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

const (
	// readyLag is how far behind the log a node may be and still be ready.
	readyLag  = 2 * time.Second
	readyPoll = 20 * time.Millisecond
	// maxScrapes bounds concurrent scrapes: each walks the ledger.
	maxScrapes = 3
)

// Readiness returns a check. Its error is nil if a leader is known and this node applies, within
// readyLag, everything that was committed when the check began.
func Readiness(node *cluster.Node) func(context.Context) error {
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

// OpsHandler returns the handler of metrics and health, for operators.
func OpsHandler(reg *prometheus.Registry, ready func(context.Context) error) http.Handler {
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
