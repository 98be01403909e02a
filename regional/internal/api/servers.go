package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"aliquot/internal/envoyrls"
	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
	"aliquot/regional/internal/overload"
)

const (
	// maxGRPCStreams caps the calls under way on one gRPC connection, including those whose answers
	// the client does not read.
	maxGRPCStreams = 256
	// maxSmallMessage caps a message to health or reflection, uncompressed. Such a message names a
	// service.
	maxSmallMessage = 64 << 10
	// streamWorkers is the number of goroutines that serve one gRPC call after another. If all are busy, a call gets a
	// goroutine of its own, whose stack has to grow. The workers take turns, so the more there are, the fewer of their
	// stacks are in the processor's cache. Decision 0113 has the figures.
	streamWorkers = 64
	// maxGRPCIdle closes a connection without calls, with or without pings, so that the connections
	// of clients that are done do not fill the listener's limit. A gRPC client connects again by
	// itself. The time is longer than proxies keep an idle connection.
	maxGRPCIdle = 5 * time.Minute
	// minPing is how often a gRPC client may ping, idle or not.
	minPing = 10 * time.Second
)

// connectHandler serves LimiterService over Connect, gRPC-Web and JSON, health, reflection, and a
// text that greets a visitor.
func connectHandler(s *Service) http.Handler {
	mux := http.NewServeMux()
	weigh := func(next http.Handler) http.Handler {
		if s.weights == nil {
			return next
		}
		return rpc.Weigh(s.weights, maxMessage, next)
	}
	options := connect.WithHandlerOptions(connect.WithReadMaxBytes(maxMessage), connect.WithRecover(s.recovered), rpc.Received())
	path, generated := aliquotv1connect.NewLimiterServiceHandler(connectService{s}, rpc.JSONCodec(), options)
	mux.Handle(path, weigh(hideAddresses(generated)))
	calls := handleCalls(mux, s, weigh, options)
	small := connect.WithReadMaxBytes(maxSmallMessage)
	mux.Handle(grpchealth.NewHandler(grpchealth.NewStaticChecker(aliquotv1connect.LimiterServiceName), small))
	reflector := grpcreflect.NewStaticReflector(aliquotv1connect.LimiterServiceName)
	mux.Handle(grpcreflect.NewHandlerV1(reflector, small))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector, small))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, "Aliquot regional daemon of region %s.\n\n"+
			"  POST %s  {\"attributes\":{\"api_key\":\"k\"}}\n"+
			"  POST %s\n  GET  %s  for proxies\n\nMetrics and health are on the ops listener.\n",
			s.region, aliquotv1connect.LimiterServiceCheckProcedure, aliquotv1connect.LimiterServiceCheckBatchProcedure, checkPath)
	})
	return s.lateCalls(path, rpc.Refusals(calls))
}

// recovered returns the error of a call over Connect that panicked.
func (s *Service) recovered(_ context.Context, spec connect.Spec, _ http.Header, cause any) error {
	return s.panics.Caught(spec.Procedure, cause)
}

// GRPC returns a server of the service over native gRPC, and of Envoy's rate limit protocol. A call over
// native gRPC costs a third of a call over the standard library's HTTP/2 server. Compressed calls are
// refused, because no package of this program registers a compressor with grpc-go: it would unpack any
// number of calls at once, and 2 KB can become 4 MiB.
func (s *Service) GRPC() (*grpc.Server, *health.Server) {
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(maxGRPCStreams),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.ConnectionTimeout(5*time.Second),
		grpc.MaxHeaderListSize(16<<10),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: maxGRPCIdle, Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.InTapHandle(func(ctx context.Context, info *tap.Info) (context.Context, error) {
			ctx, err := s.throttle.Tap(ctx, info)
			if err != nil {
				return ctx, err
			}
			return s.tap(ctx, info)
		}),
		grpc.UnaryInterceptor(s.grpcErrors),
		grpc.ForceServerCodecV2(envelopeCodec{encoding.GetCodecV2("proto"), s.messages}),
	)
	aliquotv1.RegisterLimiterServiceServer(envelopeRegistrar{server, map[string]grpc.MethodHandler{
		"Check": grpcHandler(s, single), "CheckBatch": grpcHandler(s, batch),
	}, map[string]grpc.StreamHandler{"CheckStream": grpcStreamHandler(s)}}, s)
	s.envoy.register(server)
	h := health.NewServer()
	for _, name := range []string{aliquotv1connect.LimiterServiceName, envoyrls.ServiceName} {
		h.SetServingStatus(name, healthv1.HealthCheckResponse_SERVING)
	}
	healthv1.RegisterHealthServer(server, h)
	reflection.Register(server)
	return server, h
}

// PartialMessages returns the bound on the messages to GRPC's server that are not whole.
func PartialMessages() *overload.Partial { return overload.NewPartial(maxMessage) }

// grpcErrors gives each error the code that it has over Connect, and turns a panic into an error.
func (s *Service) grpcErrors(ctx context.Context, in any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (out any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			out, err = nil, grpcError(s.panics.Caught(info.FullMethod, cause))
		}
	}()
	out, err = handler(ctx, in)
	return out, grpcError(err)
}

// grpcError converts an error to a gRPC status.
func grpcError(err error) error {
	if rpcErr, ok := errors.AsType[*connect.Error](err); ok {
		return status.Error(grpccodes.Code(rpcErr.Code()), rpcErr.Message())
	}
	return err
}
