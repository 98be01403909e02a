package regional

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"aliquot/internal/testmetrics"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
	"aliquot/regional/internal/storeguard"
)

// crowd takes all turns of requests at a daemon until the test ends.
func crowd(t *testing.T, d *Daemon) {
	t.Helper()
	for range 4 * storeguard.GroupsPerCall {
		turns, err := d.door.Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.door.Leave(turns) })
	}
}

// TestAnswersOfADaemonThatIsAskedTooMuch: a call that finds no turn has the answer that is defined for its
// protocol; reports, readiness and health are outside of it.
func TestAnswersOfADaemonThatIsAskedTooMuch(t *testing.T) {
	d, _ := startLive(t, testConfig(newLeader(t, failRules).address()))
	crowd(t, d)
	for path, want := range map[string]int{
		"/check":                 http.StatusServiceUnavailable,
		"/check?deny_status=403": http.StatusForbidden,
		"/check/v1/orders":       http.StatusTooManyRequests, // Envoy's ext_authz lets a 5xx pass
	} {
		out, err := http.Get("http://" + d.Addr() + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(out.Body)
		out.Body.Close()
		if out.StatusCode != want || out.Header.Get("Retry-After") != "1" || !strings.Contains(string(body), "temporary-reduced-capacity") {
			t.Errorf("%s: %s, %v, %s", path, out.Status, out.Header, body)
		}
	}
	request := &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": "k", "on": "local"}}
	batch := &aliquotv1.CheckBatchRequest{Requests: []*aliquotv1.CheckRequest{request, request}}
	overConnect := aliquotv1connect.NewLimiterServiceClient(clientOf(d), "http://"+d.Addr())
	overGRPC := aliquotv1.NewLimiterServiceClient(dialGRPC(t, d))
	for name, call := range map[string]func(context.Context) error{
		"Check":            func(ctx context.Context) error { _, err := overConnect.Check(ctx, request); return err },
		"CheckBatch":       func(ctx context.Context) error { _, err := overConnect.CheckBatch(ctx, batch); return err },
		"Check, gRPC":      func(ctx context.Context) error { _, err := overGRPC.Check(ctx, request); return err },
		"CheckBatch, gRPC": func(ctx context.Context) error { _, err := overGRPC.CheckBatch(ctx, batch); return err },
		"Reserve": func(ctx context.Context) error {
			_, err := overGRPC.Reserve(ctx, &aliquotv1.ReserveRequest{Attributes: request.GetAttributes()})
			return err
		},
		"Settle": func(ctx context.Context) error {
			_, err := overGRPC.Settle(ctx, &aliquotv1.SettleRequest{Id: "x"})
			return err
		},
	} {
		err := call(t.Context())
		if status.Code(err) != codes.Unavailable && connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	stream, err := overGRPC.CheckStream(t.Context())
	if err == nil {
		err = stream.Send(&aliquotv1.CheckStreamRequest{Requests: []*aliquotv1.StreamedCheck{{Id: 7, Request: request}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := stream.Recv(); err != nil || len(out.GetAnswers()) != 1 || out.GetAnswers()[0].GetId() != 7 || !strings.Contains(out.String(), "more than it can decide") {
		t.Errorf("a stream: %v, %v", out, err)
	}
	envoy := ratelimitv3.NewRateLimitServiceClient(dialGRPC(t, d))
	for failure, want := range map[string]ratelimitv3.RateLimitResponse_Code{
		"open": ratelimitv3.RateLimitResponse_OK, "closed": ratelimitv3.RateLimitResponse_OVER_LIMIT,
	} {
		out, err := envoy.ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{Domain: "d", Descriptors: []*commonv3.RateLimitDescriptor{{
			Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "api_key", Value: "k"}, {Key: "on", Value: failure}},
		}}})
		if err != nil || out.GetOverallCode() != want {
			t.Errorf("Envoy, on_redis_failure %s: %v, %v", failure, out, err)
		}
	}
	eventually(t, "the daemon is ready, and reports", func() bool {
		out, err := http.Get("http://" + d.OpsAddr() + "/readyz")
		if err == nil {
			out.Body.Close()
		}
		return err == nil && out.StatusCode == http.StatusOK
	})
	if n := testmetrics.Counter(t, d.registry, "aliquot_overload_total"); n < 12 {
		t.Errorf("%v are counted", n)
	}
}
