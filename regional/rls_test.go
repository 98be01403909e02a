package regional

import (
	"context"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"aliquot/internal/envoyrls"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

const envoyRules = `
defaults: {enforcement: independent}
rules:
  - {id: r0, match: {attributes: {domain: shop}}, key: [tenant], params: {limit: 3, window: 1h}}
  - {id: r1, match: {attributes: {domain: shop, path: /orders}}, key: [path], params: {capacity: 1, refill_rate: 0.001, window: 90s}}
  - {id: r2, match: {attributes: {domain: watched}}, key: [tenant], shadow: true, params: {capacity: 1, refill_rate: 0.001}}
  - {id: r3, match: {attributes: {domain: free}}, key: [api_key], params: {capacity: 1, refill_rate: 0.001}}
whitelist: ["sk_internal_*"]
blacklist: ["sk_revoked_*"]
`

// entries are a descriptor of keys and values.
func entries(pairs ...string) *descriptorv3.RateLimitDescriptor {
	d := &descriptorv3.RateLimitDescriptor{}
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &descriptorv3.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

// costing is a descriptor with a cost of its own.
func costing(hits uint64, d *descriptorv3.RateLimitDescriptor) *descriptorv3.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(hits)
	return d
}

// envoy asks a daemon as Envoy does.
func envoy(t *testing.T, d *Daemon, domain string, hits uint32, descriptors ...*descriptorv3.RateLimitDescriptor) *ratelimitv3.RateLimitResponse {
	t.Helper()
	out, err := ratelimitv3.NewRateLimitServiceClient(dialGRPC(t, d)).ShouldRateLimit(t.Context(),
		&ratelimitv3.RateLimitRequest{Domain: domain, HitsAddend: hits, Descriptors: descriptors})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.GetStatuses()) != len(descriptors) {
		t.Fatalf("%d statuses for %d descriptors", len(out.GetStatuses()), len(descriptors))
	}
	return out
}

// codesOf are the code of the whole and those of its descriptors, O for over and k for OK.
func codesOf(r *ratelimitv3.RateLimitResponse) string {
	word := map[ratelimitv3.RateLimitResponse_Code]string{ratelimitv3.RateLimitResponse_OK: "k", ratelimitv3.RateLimitResponse_OVER_LIMIT: "O"}
	out := word[r.GetOverallCode()] + ":"
	for _, s := range r.GetStatuses() {
		out += word[s.GetCode()]
	}
	return out
}

func headerOf(r *ratelimitv3.RateLimitResponse, name string) string {
	for _, h := range r.GetResponseHeadersToAdd() {
		if h.GetKey() == name {
			return h.GetValue()
		}
	}
	return ""
}

func TestEnvoyIsAnsweredInOrder(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, envoyRules).address()))
		began := time.Now()
		ask := func(want string) *ratelimitv3.RateLimitResponse {
			t.Helper()
			out := envoy(t, d, "shop", 0, entries("tenant", "a"), entries("path", "/orders"), entries("user", "nobody asks"))
			if got := codesOf(out); got != want {
				t.Errorf("%s, want %s: %v", got, want, out)
			}
			return out
		}
		// A descriptor without a tenant is of r0 too, as the tenant without a name.
		first := ask("k:kkk")
		for i, want := range []struct {
			name       string
			limit      uint32
			remaining  uint32
			unit       ratelimitv3.RateLimitResponse_RateLimit_Unit
			multiplier uint32
		}{
			{"r0", 3, 2, ratelimitv3.RateLimitResponse_RateLimit_HOUR, 0},
			{"r1", 1, 0, ratelimitv3.RateLimitResponse_RateLimit_SECOND, 1000},
			{"r0", 3, 1, ratelimitv3.RateLimitResponse_RateLimit_HOUR, 0},
		} {
			s := first.GetStatuses()[i]
			l := s.GetCurrentLimit()
			if l.GetName() != want.name || l.GetRequestsPerUnit() != want.limit || l.GetUnit() != want.unit || l.GetUnitMultiplier().GetValue() != want.multiplier ||
				s.GetLimitRemaining() != want.remaining || s.GetDurationUntilReset().GetSeconds() < 900 || s.GetDurationUntilReset().GetNanos() != 0 {
				t.Errorf("status %d: %v", i, s)
			}
		}
		if len(first.GetResponseHeadersToAdd()) != 0 {
			t.Errorf("headers that were not asked for: %v", first.GetResponseHeadersToAdd())
		}
		second := ask("O:kOk")
		wait, err := strconv.Atoi(headerOf(second, "Retry-After"))
		if took := time.Since(began).Seconds(); err != nil || wait > 1000 || float64(wait) < 1000-took {
			t.Errorf("Retry-After %d (%v), want 1000 less %.1f at the most: %v", wait, err, took, second.GetResponseHeadersToAdd())
		}
		// The path was denied by r1 and has consumed nothing of r0; now that is used up.
		ask("O:kOO")
		ask("O:OOO")
		if metric := scrape(t, d); !strings.Contains(metric, `aliquot_rls_requests_total{code="over_limit",region="us"} 3`) ||
			!strings.Contains(metric, `aliquot_rls_requests_total{code="ok",region="us"} 1`) {
			t.Error("the calls are not counted by their codes")
		}
	})
}

func TestEnvoysDenialsAreExplained(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, envoyRules).address()))
		envoy(t, d, "shop", 3, entries("tenant", "a"))
		id := headerOf(envoy(t, d, "shop", 1, entries("tenant", "b"), entries("tenant", "a")), "X-Decision-Id")
		out, err := aliquotv1.NewLimiterServiceClient(dialGRPC(t, d)).Explain(t.Context(), &aliquotv1.ExplainRequest{What: &aliquotv1.ExplainRequest_DecisionId{DecisionId: id}})
		if err != nil {
			t.Fatal(err)
		}
		if got := out.GetDecision(); got.GetAllowed() || got.GetRuleId() != "r0" || len(out.GetRules()) != 4 || !out.GetRules()[0].GetMatched() || out.GetRules()[2].GetMatched() {
			t.Errorf("%v", out)
		}
	})
}

func TestEnvoysCosts(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, envoyRules).address()))
		look := func(want uint32, code string) {
			t.Helper()
			out := envoy(t, d, "shop", 7, costing(0, entries("tenant", "a")))
			if got := out.GetStatuses()[0].GetLimitRemaining(); got != want || codesOf(out) != code {
				t.Errorf("%s with %d left, want %s with %d", codesOf(out), got, code, want)
			}
		}
		look(3, "k:k")
		if got := codesOf(envoy(t, d, "shop", 2, entries("tenant", "a"), costing(1, entries("tenant", "b")))); got != "k:kk" {
			t.Errorf("%s", got)
		}
		look(1, "k:k")
		// A refund is not given: nothing is charged either.
		back := entries("tenant", "a")
		back.IsNegativeHits = true
		back.Limit = &descriptorv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1000}
		if got := codesOf(envoy(t, d, "shop", 2, back)); got != "k:k" {
			t.Errorf("%s", got)
		}
		look(1, "k:k")
		if metric := scrape(t, d); !strings.Contains(metric, `aliquot_rls_ignored_total{region="us",what="limit"} 1`) ||
			!strings.Contains(metric, `aliquot_rls_ignored_total{region="us",what="refund"} 1`) {
			t.Error("what is not heeded is not counted")
		}
		if got := codesOf(envoy(t, d, "shop", 2, entries("tenant", "a"))); got != "O:O" {
			t.Errorf("two of one left: %s", got)
		}
		if got := codesOf(envoy(t, d, "shop", 1, entries("tenant", "a"))); got != "k:k" {
			t.Errorf("the one left: %s", got)
		}
		look(0, "O:O")
		never := envoy(t, d, "shop", math.MaxUint32, entries("tenant", "c"))
		if codesOf(never) != "O:O" || headerOf(never, "Retry-After") != "" || headerOf(never, "X-Decision-Id") == "" {
			t.Errorf("a cost above the limit: %v", never)
		}
	})
}

func TestEnvoyWhereNoLimitTells(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, envoyRules).address()))
		for range 2 {
			out := envoy(t, d, "watched", 1, entries("tenant", "a"))
			if s := out.GetStatuses()[0]; codesOf(out) != "k:k" || s.GetCurrentLimit() != nil || s.GetDurationUntilReset() != nil {
				t.Errorf("a limit that watches: %v", out)
			}
		}
		for _, c := range []struct {
			domain, key string
			code        string
			remaining   uint32
		}{
			{"elsewhere", "a", "k:k", 0},
			{"free", "sk_internal_1", "k:k", math.MaxUint32},
			{"free", "sk_revoked_1", "O:O", 0},
		} {
			out := envoy(t, d, c.domain, 1, entries("api_key", c.key))
			if s := out.GetStatuses()[0]; codesOf(out) != c.code || s.GetLimitRemaining() != c.remaining || s.GetCurrentLimit() != nil {
				t.Errorf("%s: %v", c.key, out)
			}
		}
	})
}

// TestNoValueBuysAnything: an error would let the request pass.
func TestNoValueBuysAnything(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, envoyRules).address()))
		for i, want := range []string{"k:k", "k:k", "k:k", "O:O"} {
			if got := codesOf(envoy(t, d, "shop", 1, entries("tenant", strings.Repeat("é", 5<<10+i)))); got != want {
				t.Errorf("long value %d: %s, want %s", i, got, want)
			}
		}
		// A tenant that is not UTF-8, as Envoy sends it, is one like any other.
		conn := dialGRPC(t, d)
		entry := append([]byte{0x0a, 6}, "tenant\x12\x01\xff"...)
		descriptor := protowire.AppendBytes([]byte{0x0a}, entry)
		raw := protowire.AppendBytes(append([]byte("\x0a\x04shop"), 0x12), descriptor)
		for i, want := range []ratelimitv3.RateLimitResponse_Code{1, 1, 1, 2} {
			var reply []byte
			if err := conn.Invoke(t.Context(), ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, &raw, &reply, grpc.ForceCodec(rawCodec{})); err != nil {
				t.Fatal(err)
			}
			var out ratelimitv3.RateLimitResponse
			if err := proto.Unmarshal(reply, &out); err != nil || out.GetOverallCode() != want {
				t.Errorf("request %d: %v, %v, want %v", i, &out, err, want)
			}
		}
	})
}

func TestEnvoysHeaders(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		c := testConfig(newLeader(t, envoyRules).address())
		c.RLSHeaders = "both"
		d, _ := startLive(t, c)
		out := envoy(t, d, "shop", 1, entries("other", "x"), entries("tenant", "a", "path", "/orders"))
		if got := headerOf(out, "X-RateLimit-Limit") + " " + headerOf(out, "X-RateLimit-Remaining") + " " + headerOf(out, "RateLimit"); !strings.HasPrefix(got, `1 0 "r1";r=0;t=`) {
			t.Errorf("of the strictest: %s in %v", got, out)
		}
		c.RLSHeaders = "some"
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "--rls-headers") {
			t.Errorf("%v", err)
		}
	})
}

func TestEnvoysMistakes(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, envoyRules).address()))
		conn := dialGRPC(t, d)
		client := ratelimitv3.NewRateLimitServiceClient(conn)
		for want, in := range map[string]*ratelimitv3.RateLimitRequest{
			"rate limit domain must not be empty":          {Descriptors: []*descriptorv3.RateLimitDescriptor{entries("a", "b")}},
			"rate limit descriptor list must not be empty": {Domain: "shop"},
		} {
			_, err := client.ShouldRateLimit(t.Context(), in)
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(status.Convert(err).Message(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
		raw, out := []byte{0x0a, 200}, []byte(nil)
		err := conn.Invoke(t.Context(), ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, &raw, &out, grpc.ForceCodec(rawCodec{}))
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "cannot be read") {
			t.Errorf("no message: %v", err)
		}
		if metric := scrape(t, d); !strings.Contains(metric, `aliquot_rls_requests_total{code="error",region="us"} 3`) {
			t.Error("errors are not counted")
		}
	})
}

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string                  { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(b []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), b...)
	return nil
}

func TestEnvoyWithoutTheStore(t *testing.T) {
	server := startRedis(t)
	c := testConfig(newLeader(t, `
defaults: {enforcement: independent}
rules:
  - {id: r0, match: {attributes: {domain: open}}, key: [a], on_redis_failure: open, params: {capacity: 5, refill_rate: 1}}
  - {id: r1, match: {attributes: {domain: closed}}, key: [a], on_redis_failure: closed, params: {capacity: 5, refill_rate: 1}}
`).address())
	c.Redis, c.RLSHeaders = server.url(), "legacy"
	d, _ := startLive(t, c)
	server.signal(syscall.SIGSTOP)
	for domain, want := range map[string]string{"open": "k:k", "closed": "O:O"} {
		out := envoy(t, d, domain, 1, entries("a", "b"))
		if codesOf(out) != want || out.GetStatuses()[0].GetCurrentLimit() != nil || headerOf(out, "X-RateLimit-Policy") != "degraded" || headerOf(out, "X-RateLimit-Remaining") != "-1" {
			t.Errorf("%s: %v", domain, out)
		}
	}
}

func TestEnvoysServiceIsNamed(t *testing.T) {
	d, _ := startLive(t, testConfig(newLeader(t, envoyRules).address()))
	conn := dialGRPC(t, d)
	health, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: envoyrls.ServiceName})
	if err != nil || health.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("health %v, %v", health, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	err = stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: envoyrls.ServiceName}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := stream.Recv()
	if err != nil || len(out.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("%v, %v", out, err)
	}
}

// TestEnvoysExample has the rules beside Envoy's configuration in deploy/examples.
func TestEnvoysExample(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		text, err := os.ReadFile("../deploy/examples/envoy/rules.yaml")
		if err != nil {
			t.Fatal(err)
		}
		l := newLeader(t, "")
		l.set(func() {
			l.rules = &aliquotv1.Rules{Version: 1, Yaml: string(text), Numbers: map[string]uint32{"per-tenant": 1, "large-tenant": 2, "per-address": 3}}
		})
		d, _ := startLive(t, testConfig(l.address()))
		out := envoy(t, d, "shop", 0, entries("tenant", "t1"), entries("remote_address", "192.0.2.1"), entries("tenant", "acme"))
		for i, want := range []string{"per-tenant", "per-address", "large-tenant"} {
			if got := out.GetStatuses()[i].GetCurrentLimit().GetName(); got != want {
				t.Errorf("status %d is of %q, want %s", i, got, want)
			}
		}
	})
}
