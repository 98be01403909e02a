// Package floor serves constant answers by the protocols that a regional daemon serves,
// with the same libraries used in the plainest way: what a server that decides nothing
// costs. Real servers are compared with it in the same run.
package floor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/internal/bench/load"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// Serve answers by one of load.Protocols until ctx ends.
func Serve(ctx context.Context, protocol load.Protocol, l net.Listener) error {
	switch protocol {
	case load.GRPC, load.RLS, load.Stream:
		return serveGRPC(ctx, l)
	case load.Connect, load.JSON:
		mux := http.NewServeMux()
		mux.Handle(aliquotv1connect.NewLimiterServiceHandler(connectLimiter{}))
		return serveHTTP(ctx, mux, l)
	case load.HTTP:
		return serveHTTP(ctx, http.HandlerFunc(check), l)
	}
	return fmt.Errorf("there is no floor for the protocol %q", protocol)
}

func serveHTTP(ctx context.Context, h http.Handler, l net.Listener) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func serveGRPC(ctx context.Context, l net.Listener) error {
	server := grpc.NewServer()
	aliquotv1.RegisterLimiterServiceServer(server, &limiter{})
	ratelimitv3.RegisterRateLimitServiceServer(server, rateLimiter{})
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	return server.Serve(l)
}

// answer is what a check of one limit is told.
func answer() *aliquotv1.CheckResponse {
	second := durationpb.New(time.Second)
	return &aliquotv1.CheckResponse{
		Allowed: true, RuleId: "floor", Limit: 1000, Remaining: 999, ResetAfter: second, RetryAfter: &durationpb.Duration{}, Mode: "local",
		Limits: []*aliquotv1.LimitDecision{{
			RuleId: "floor", Allowed: true, Limit: 1000, Remaining: 999, ResetAfter: second, RetryAfter: &durationpb.Duration{},
			Mode: "local", Window: second, Algorithm: "token_bucket", Unit: "requests",
		}},
	}
}

func answers(n int) *aliquotv1.CheckBatchResponse {
	out := &aliquotv1.CheckBatchResponse{Results: make([]*aliquotv1.CheckBatchResult, n)}
	for i := range out.Results {
		out.Results[i] = &aliquotv1.CheckBatchResult{Response: answer()}
	}
	return out
}

// limiter answers over gRPC.
type limiter struct {
	aliquotv1.UnimplementedLimiterServiceServer
}

func (*limiter) Check(context.Context, *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error) {
	return answer(), nil
}

func (*limiter) CheckBatch(_ context.Context, in *aliquotv1.CheckBatchRequest) (*aliquotv1.CheckBatchResponse, error) {
	return answers(len(in.GetRequests())), nil
}

func (*limiter) CheckStream(stream grpc.BidiStreamingServer[aliquotv1.CheckStreamRequest, aliquotv1.CheckStreamResponse]) error {
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		out := &aliquotv1.CheckStreamResponse{}
		for _, r := range in.GetRequests() {
			out.Answers = append(out.Answers, &aliquotv1.StreamedAnswer{Id: r.GetId(), Response: answer()})
		}
		if err := stream.Send(out); err != nil {
			return err
		}
	}
}

// connectLimiter answers over Connect what limiter does over gRPC.
type connectLimiter struct {
	aliquotv1connect.UnimplementedLimiterServiceHandler
}

func (connectLimiter) Check(ctx context.Context, in *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error) {
	return (*limiter)(nil).Check(ctx, in)
}

func (connectLimiter) CheckBatch(ctx context.Context, in *aliquotv1.CheckBatchRequest) (*aliquotv1.CheckBatchResponse, error) {
	return (*limiter)(nil).CheckBatch(ctx, in)
}

// rateLimiter answers Envoy.
type rateLimiter struct{}

func (rateLimiter) ShouldRateLimit(_ context.Context, in *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	out := &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_OK}
	for range in.GetDescriptors() {
		out.Statuses = append(out.Statuses, &ratelimitv3.RateLimitResponse_DescriptorStatus{
			Code: ratelimitv3.RateLimitResponse_OK, LimitRemaining: 999, DurationUntilReset: durationpb.New(time.Second),
			CurrentLimit: &ratelimitv3.RateLimitResponse_RateLimit{RequestsPerUnit: 1000, Unit: ratelimitv3.RateLimitResponse_RateLimit_SECOND},
		})
	}
	return out, nil
}

// check answers a proxy with the headers that GET /check has.
func check(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("X-RateLimit-Limit", "1000")
	h.Set("X-RateLimit-Remaining", "999")
	h.Set("X-RateLimit-Reset", "1700000000")
	h.Set("RateLimit-Policy", `"floor";q=1000;w=1`)
	h.Set("RateLimit", `"floor";r=999;t=1`)
	w.WriteHeader(http.StatusOK)
}
