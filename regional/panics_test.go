package regional

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/status"

	"aliquot/budget"
	"aliquot/internal/storeclock"
	"aliquot/internal/testlog"
	"aliquot/internal/testmetrics"
	"aliquot/limit"
	"aliquot/lua"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
	"aliquot/regional/internal/authority"
	"aliquot/regional/internal/background"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/storeguard"
	"aliquot/regional/internal/telemetry"
)

// TestACallThatPanicsIsToldOf in the log, with where it was, and counted, whatever it came
// by; its client hears that it failed, and nothing of what others sent.
func TestACallThatPanicsIsToldOf(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		var log testlog.Buffer
		c := testConfig(newLeader(t, oneRule).address())
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		d, stop := startLive(t, c)
		d.limiter.Send = func(context.Context, []*charge.Transaction) error { panic("of sk_somebody") }
		request := &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": "k"}}
		batch := &aliquotv1.CheckBatchRequest{Requests: []*aliquotv1.CheckRequest{request}}
		overConnect := aliquotv1connect.NewLimiterServiceClient(clientOf(d), "http://"+d.Addr())
		overGRPC := aliquotv1.NewLimiterServiceClient(dialGRPC(t, d))
		calls := map[string]func() error{
			"Connect": func() error { _, err := overConnect.Check(t.Context(), request); return err },
			"gRPC":    func() error { _, err := overGRPC.Check(t.Context(), request); return err },
			"a batch": func() error { _, err := overGRPC.CheckBatch(t.Context(), batch); return err },
			"a large batch": func() error {
				large := &aliquotv1.CheckBatchRequest{Requests: slices.Repeat(batch.GetRequests(), 2*storeguard.GroupsPerCall)}
				_, err := overGRPC.CheckBatch(t.Context(), large)
				return err
			},
			"Explain": func() error {
				_, err := overGRPC.Explain(t.Context(), &aliquotv1.ExplainRequest{What: &aliquotv1.ExplainRequest_Request{Request: request}})
				return err
			},
			"a stream": func() error {
				s, err := overGRPC.CheckStream(t.Context())
				if err != nil {
					return err
				}
				if err := s.Send(&aliquotv1.CheckStreamRequest{Requests: []*aliquotv1.StreamedCheck{{Request: request}}}); err != nil {
					return err
				}
				_, err = s.Recv()
				return err
			},
			"Envoy": func() error {
				_, err := ratelimitv3.NewRateLimitServiceClient(dialGRPC(t, d)).ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{
					Domain: "d", Descriptors: []*commonv3.RateLimitDescriptor{{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "api_key", Value: "k"}}}},
				})
				return err
			},
		}
		for name, call := range calls {
			err := call()
			if code := max(connect.CodeOf(err), connect.Code(status.Code(err))); err == nil || code < connect.CodeInternal || !strings.Contains(err.Error(), background.ErrPanic.Error()) || strings.Contains(err.Error(), "sk_somebody") {
				t.Errorf("%s: %v", name, err)
			}
		}
		response, err := clientOf(d).Get("http://" + d.Addr() + "/check")
		if err != nil || response.StatusCode != http.StatusInternalServerError {
			t.Fatalf("GET /check: %v, %v", response, err)
		}
		response.Body.Close()
		stop()
		if n := testmetrics.Counter(t, d.registry, "aliquot_panics_total"); n != float64(len(calls)+1) {
			t.Errorf("%v panics are counted of %d", n, len(calls)+1)
		}
		text := log.String()
		for _, want := range []string{
			"/Check ", "/CheckBatch ", "/Explain ", "/CheckStream ", "/ShouldRateLimit ", "call=/check ", "of sk_somebody", "panics_test.go",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the log has no %q:\n%.2000s", want, text)
			}
		}
	})
}

// TestAPanicOfASharedCallIsDecidedWithoutTheStore: it is none of its callers' doing, so each
// hears what its rule says of a store that does not answer.
func TestAPanicOfASharedCallIsDecidedWithoutTheStore(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, failRules).address()))
		b := &storeguard.Batcher{
			Send: func(context.Context, []*charge.Transaction) error { panic("a bug") }, Refused: d.guard.CountRefused,
			Caught: func(cause any) { _ = d.bugs.Caught("a call of the store", cause) },
		}
		d.limiter.Send = b.Decide
		for which, mode := range map[string]string{"local": modes.Emergency, "open": modes.FailOpen, "closed": modes.FailClosed} {
			if a := on(t, d, which); a.Mode != mode {
				t.Errorf("%s: %+v", which, a)
			}
		}
		if n := testmetrics.Counter(t, d.registry, "aliquot_panics_total"); n != 3 {
			t.Errorf("%v panics are counted of 3", n)
		}
	})
}

// panickyStore panics where no client waits.
type panickyStore struct{ storeguard.Store }

func (panickyStore) Epoch(context.Context) (string, error) { panic("a bug") }
func (panickyStore) ApplyLease(context.Context, string, []lua.Change) ([]limit.Applied, int64, error) {
	panic("a bug")
}

// TestAPanicOfTheDaemonsOwnCallsIsAFailure of the store, as it is for calls that clients wait for.
func TestAPanicOfTheDaemonsOwnCallsIsAFailure(t *testing.T) {
	m := telemetry.New("us", "test", prometheus.NewRegistry())
	now := func() budget.Instant { return second }
	auth := authority.New(budget.NewRegion(0, budget.Config{}, 1, second), storeclock.New(), now)
	g := storeguard.New(storeguard.Config{Store: panickyStore{}, Observer: auth, Now: auth.Now, Metrics: m, Changed: func(bool, error) {}, Failed: func() {}})
	if err := g.Learn(t.Context()); !errors.Is(err, storeguard.ErrBroken) {
		t.Errorf("learn: %v", err)
	}
	if _, _, err := g.Apply(t.Context(), time.Second, "e", nil); !errors.Is(err, storeguard.ErrBroken) {
		t.Errorf("apply: %v", err)
	}
}
