package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"aliquot/internal/checkwire"
	"aliquot/internal/envoyrls"
	"aliquot/internal/httpanswer"
	"aliquot/internal/identity"
	"aliquot/internal/rpc"
	"aliquot/lua"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/background"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/engine"
	"aliquot/regional/internal/explain"
	"aliquot/regional/internal/overload"
	"aliquot/regional/internal/telemetry"
)

// rpcCodes is the daemon's only translation of errors to RPC codes.
var rpcCodes = rpc.Table{
	{Err: charge.ErrInvalid, Code: connect.CodeInvalidArgument},
	{Err: envoyrls.ErrInvalid, Code: connect.CodeInvalidArgument},
	{Err: explain.ErrNoDecision, Code: connect.CodeNotFound},
	{Err: charge.ErrTooManyRules, Code: connect.CodeFailedPrecondition},
	{Err: engine.ErrNoReservation, Code: connect.CodeNotFound},
	{Err: lua.ErrNoRoom, Code: connect.CodeResourceExhausted},
	{Err: engine.ErrNotSettled, Code: connect.CodeUnavailable},
}

// Config holds what a Service needs.
type Config struct {
	Region  string
	Limiter *engine.Engine
	Answers *explain.Recorder
	Metrics *telemetry.Metrics
	Bugs    *background.Panics
	// Door bounds how many requests are decided at once, and Messages the memory of messages. Nil
	// bounds nothing.
	Door     *overload.Door
	Messages *rpc.Gate
	// Throttle delays the answers of connections on which all checks are denied; nil: it delays none.
	Throttle *overload.Throttle
	// StreamMemory bounds the memory of all streams together, in bytes; 0: 64 MiB.
	StreamMemory int64
	// Stopping is closed when the daemon stops, for calls that would not end by themselves.
	Stopping <-chan struct{}
	// Identity finds the clients of GET /check. Headers selects the rate limit headers of its
	// answers, and EnvoyHeaders those of answers to Envoy's rate limit protocol.
	Identity              *identity.Rules
	Headers, EnvoyHeaders httpanswer.Headers
	// Hosts are the names to which calls over Connect may be addressed.
	Hosts rpc.Hosts
	Log   *slog.Logger
}

// Service is LimiterService, over Connect and gRPC, GET /check, and Envoy's rate limit protocol. Safe
// for concurrent use.
type Service struct {
	aliquotv1.UnimplementedLimiterServiceServer
	region  string
	limiter *engine.Engine
	metrics *telemetry.Metrics
	answers *explain.Recorder
	// rawCalls are kept for calls that are read and written as bytes.
	rawCalls rawCalls
	// stopping is closed when the daemon stops, for calls that would not end by themselves.
	stopping <-chan struct{}
	// quota bounds the memory of all streams together.
	quota *memoryQuota
	// throttle delays the answers of connections on which all checks are denied.
	throttle *overload.Throttle
	panics   *background.Panics
	// door bounds how many requests are decided at once, and weights the memory of messages. Nil
	// bounds nothing.
	door    *overload.Door
	weights *rpc.Gate
	// messages bounds the memory of whole messages over gRPC.
	messages *rpc.Gate
	calls    atomic.Int64 // number of calls under way over gRPC
	proxies  *httpCheck
	envoy    *envoyService
	hosts    rpc.Hosts
}

// New returns a service. It registers metrics of its own with reg.
func New(c Config, reg prometheus.Registerer) *Service {
	if c.StreamMemory == 0 {
		c.StreamMemory = streamMemory
	}
	s := &Service{
		region: c.Region, limiter: c.Limiter, metrics: c.Metrics, answers: c.Answers, stopping: c.Stopping,
		quota: newMemoryQuota(c.StreamMemory, c.Metrics, c.Log), throttle: c.Throttle, panics: c.Bugs, door: c.Door, weights: c.Messages, hosts: c.Hosts,
	}
	s.messages = rpc.NewGate(maxMessagesGRPC, maxHeavyWaiting, heavyWait)
	s.proxies = newHTTPCheck(s, &c)
	s.envoy = &envoyService{service: s, headers: c.EnvoyHeaders, metrics: newRLSMetrics(c.Region, reg), log: c.Log}
	exportQuota(s.quota, reg)
	return s
}

// HTTP returns the handler of the service over Connect, gRPC-Web and JSON, and of GET /check.
func (s *Service) HTTP() http.Handler {
	return overload.NewOpenCalls(runtime.GOMAXPROCS(0), refusedStatus).Before(s.throttle.Before(s.proxies.before(rpc.Browsers(s.hosts, connectHandler(s)))))
}

// Check decides one request.
func (s *Service) Check(ctx context.Context, in *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error) {
	var out checkwire.Answer
	if err := s.check(ctx, wireRequest(in), &out); err != nil {
		return nil, err
	}
	s.throttle.Answered(ctx, !explain.DeniedByRules(&out))
	return out.Message(), nil
}

// check decides one request and writes the answer into out. Its error is an RPC error.
func (s *Service) check(ctx context.Context, in checkwire.Request, out *checkwire.Answer) error {
	began := time.Now()
	defer func() { s.metrics.DecisionSeconds.Observe(time.Since(began).Seconds()) }()
	r, err := validate(in)
	if err != nil {
		return rpcCodes.Error(err)
	}
	turn, err := s.door.Enter(ctx)
	if err != nil {
		return rpcCodes.Error(err)
	}
	defer s.door.Leave(turn)
	room := s.limiter.Scratches.Take()
	defer s.limiter.Scratches.Done(room)
	room.One[0] = r
	d, err := s.limiter.DecideIn(ctx, room.One[:], room)
	if err != nil {
		return rpcCodes.Error(err)
	}
	if err := d[0].Undecided(); err != nil {
		return rpcCodes.Error(err)
	}
	s.answers.Answer(&d[0], &r, out)
	return nil
}

// CheckBatch decides many requests. An invalid request does not affect the others.
func (s *Service) CheckBatch(ctx context.Context, in *aliquotv1.CheckBatchRequest) (*aliquotv1.CheckBatchResponse, error) {
	x := rawCall{kind: batch}
	if x.take(in); x.refused != nil {
		return nil, rpcCodes.Error(x.refused)
	}
	out := &aliquotv1.CheckBatchResponse{Results: make([]*aliquotv1.CheckBatchResult, 0, len(x.requests.All))}
	err := s.checkBatch(ctx, &x, func(why error) {
		if why != nil {
			out.Results = append(out.Results, &aliquotv1.CheckBatchResult{Error: why.Error()})
			return
		}
		out.Results = append(out.Results, &aliquotv1.CheckBatchResult{Response: x.answer.Message()})
	})
	if err != nil {
		return nil, err
	}
	s.answeredBatch(ctx, &x)
	return out, nil
}

// checkBatch decides the requests of x, and calls each once for every request, in order. why is the
// reason why the request could not be decided. If it is nil, x has the request's answer until each
// returns. The error is an RPC error.
func (s *Service) checkBatch(ctx context.Context, x *rawCall, each func(why error)) error {
	began := time.Now()
	defer func() { s.metrics.DecisionSeconds.Observe(time.Since(began).Seconds()) }()
	x.valid, x.invalid, x.decided, x.admitted = x.valid[:0], x.invalid[:0], false, false
	for i := range x.requests.All {
		r, err := validate(x.requests.All[i])
		if err != nil {
			x.invalid = append(x.invalid, invalid{at: i, why: err})
			continue
		}
		x.valid = append(x.valid, r)
	}
	turns, part, err := s.door.EnterCall(ctx, len(x.valid))
	if err == overload.ErrCrowded && x.kind == streamed {
		for range x.requests.All { // the stream goes on
			each(err)
		}
		return nil
	} else if err != nil {
		return rpcCodes.Error(err)
	}
	room := s.limiter.Scratches.Take()
	defer s.limiter.Scratches.Done(room)
	room.Turns, room.Part = turns, part
	defer func() { s.door.LeaveCall(room.Turns, room.Part) }()
	decisions, err := s.limiter.DecideIn(ctx, x.valid, room)
	if err != nil {
		return rpcCodes.Error(err)
	}
	var counted telemetry.Batch
	defer counted.Flush(s.metrics)
	bad := x.invalid
	for j := 0; j < len(decisions) || len(bad) > 0; {
		if at := j + len(x.invalid) - len(bad); len(bad) > 0 && bad[0].at == at {
			each(bad[0].why)
			bad = bad[1:]
			continue
		}
		if err := decisions[j].Undecided(); err != nil {
			each(err)
		} else {
			s.answers.AnswerAmong(&decisions[j], &x.valid[j], &x.answer, &counted)
			x.decided = true
			x.admitted = x.admitted || !explain.DeniedByRules(&x.answer)
			each(nil)
		}
		j++
	}
	return nil
}

// answeredBatch records the answer to a batch, which counts as admitted if one of its requests was.
// Requests that were not decided do not count.
func (s *Service) answeredBatch(ctx context.Context, x *rawCall) {
	if x.decided {
		s.throttle.Answered(ctx, x.admitted)
	}
}

// Explain returns how a request would be decided now, or how a denial came about.
func (s *Service) Explain(ctx context.Context, in *aliquotv1.ExplainRequest) (*aliquotv1.ExplainResponse, error) {
	out, err := s.explain(ctx, in)
	return out, rpcCodes.Error(err)
}

func (s *Service) explain(ctx context.Context, in *aliquotv1.ExplainRequest) (*aliquotv1.ExplainResponse, error) {
	if in.GetRequest() != nil {
		r, err := validate(wireRequest(in.GetRequest()))
		if err != nil {
			return nil, err
		}
		return s.answers.Request(ctx, &r)
	}
	if in.GetDecisionId() == "" {
		return nil, fmt.Errorf("%w: give a request or a decision_id", charge.ErrInvalid)
	}
	return s.answers.Denial(ctx, in.GetDecisionId())
}
