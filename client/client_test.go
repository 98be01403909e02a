package client_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/client"
	"aliquot/internal/dev"
	"aliquot/internal/httpanswer"
	"aliquot/internal/identity"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// stand is a region that follows the test's script.
type stand struct {
	aliquotv1connect.UnimplementedLimiterServiceHandler
	check func(context.Context, *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error)
}

func (s *stand) Check(ctx context.Context, in *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error) {
	return s.check(ctx, in)
}

func serve(check func(context.Context, *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error)) *httptest.Server {
	mux := http.NewServeMux()
	mux.Handle(aliquotv1connect.NewLimiterServiceHandler(&stand{check: check}))
	return httptest.NewServer(mux)
}

// standIn is the address of a region that lets so many requests through.
func standIn(left int64) string {
	var asked atomic.Int64
	limit := left
	return serve(func(context.Context, *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error) {
		n := asked.Add(1)
		return &aliquotv1.CheckResponse{Allowed: n <= limit, RuleId: "r", Limit: limit, Remaining: max(0, limit-n), Mode: "store", RetryAfter: durationpb.New(time.Second)}, nil
	}).URL
}

func newClient(t *testing.T, o client.Options) *client.Client {
	t.Helper()
	c, err := client.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// patient is long enough for any answer on a busy machine.
const patient = 30 * time.Second

func keyed(key string) *aliquotv1.CheckRequest {
	return &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": key}}
}

func TestWhenTheRegionDoesNotDecide(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	for name, region := range map[string]func(context.Context, *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error){
		"an error": func(context.Context, *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error) {
			return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("too many rules match"))
		},
		"no answer": func(ctx context.Context, _ *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error) {
			select {
			case <-ctx.Done():
			case <-hang:
			}
			return nil, ctx.Err()
		},
	} {
		server := serve(region)
		for fallback, want := range map[client.Fallback]struct {
			mode    string
			allowed bool
		}{
			client.FailOpen: {"fail_open", true}, client.FailClosed: {"fail_closed", false}, client.FailLocal: {"emergency", true},
		} {
			var told atomic.Int64
			c := newClient(t, client.Options{
				Address: server.URL, Timeout: 50 * time.Millisecond, Fallback: fallback,
				Local: client.LocalLimit{Requests: 5, Per: time.Hour}, OnFailure: func(error) { told.Add(1) },
			})
			out, err := c.Check(t.Context(), keyed("k"))
			if err != nil || out.GetMode() != want.mode || out.GetAllowed() != want.allowed || !strings.HasPrefix(out.GetReason(), "degraded: ") || told.Load() != 1 {
				t.Errorf("%s, fallback %d: %v, %v, told %d times", name, fallback, out, err, told.Load())
			}
			if !out.GetAllowed() && out.GetRetryAfter().AsDuration() <= 0 {
				t.Errorf("%s, fallback %d: no time to retry after", name, fallback)
			}
		}
		server.Close()
	}
}

// TestARefusalIsOfOneRequest: requests that too many rules match fall back, each by itself;
// the region goes on deciding the others.
func TestARefusalIsOfOneRequest(t *testing.T) {
	server := serve(func(_ context.Context, in *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error) {
		if in.GetAttributes()["api_key"] == "many" {
			return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("too many rules match"))
		}
		return &aliquotv1.CheckResponse{Allowed: true, Mode: "store"}, nil
	})
	defer server.Close()
	c := newClient(t, client.Options{Address: server.URL, Timeout: patient})
	for range 20 {
		if out, err := c.Check(t.Context(), keyed("many")); err != nil || out.GetMode() != "fail_open" {
			t.Fatal(out, err)
		}
	}
	if out, err := c.Check(t.Context(), keyed("k")); err != nil || out.GetMode() != "store" {
		t.Errorf("%v, %v", out, err)
	}
}

// TestARegionThatHangsIsLeftAlone: after a few timeouts nobody waits for it any more.
func TestARegionThatHangsIsLeftAlone(t *testing.T) {
	var asked atomic.Int64
	server := serve(func(ctx context.Context, _ *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error) {
		asked.Add(1)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	defer server.Close()
	c := newClient(t, client.Options{Address: server.URL, Timeout: 20 * time.Millisecond})
	began := time.Now()
	for range 100 {
		if out, err := c.Check(t.Context(), keyed("k")); err != nil || !out.GetAllowed() {
			t.Fatal(out, err)
		}
	}
	// Five in a row, and one for each second that a busy machine took.
	if most := 5 + int64(time.Since(began)/time.Second); asked.Load() > most {
		t.Errorf("asked %d times, at most %d expected", asked.Load(), most)
	}
}

func TestACallerThatIsGoneIsNoFailure(t *testing.T) {
	server := serve(func(ctx context.Context, in *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error) {
		if in.GetAttributes()["api_key"] == "hang" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return &aliquotv1.CheckResponse{Allowed: true, Mode: "store"}, nil
	})
	defer server.Close()
	c := newClient(t, client.Options{Address: server.URL, Timeout: patient, Fallback: client.FailClosed, OnFailure: func(err error) { t.Error(err) }})
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if out, err := c.Check(ctx, keyed("hang")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, %v", out, err)
		}
		cancel()
	}
	if out, err := c.Check(t.Context(), keyed("k")); err != nil || out.GetMode() != "store" {
		t.Errorf("%v, %v", out, err)
	}
}

func TestLocalLimit(t *testing.T) {
	c := newClient(t, client.Options{Address: "127.0.0.1:1", Fallback: client.FailLocal, Local: client.LocalLimit{Requests: 3, Per: 24 * time.Hour}})
	check := func(key string, cost int64) *aliquotv1.CheckResponse {
		in := keyed(key)
		in.Cost = proto.Int64(cost)
		out, err := c.Check(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := check("a", 4); out.GetAllowed() || !out.GetNever() {
		t.Errorf("above the limit: %v", out)
	}
	var passed atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if out, err := c.Check(t.Context(), keyed("a")); err == nil && out.GetAllowed() {
				passed.Add(1)
			}
		})
	}
	all.Wait()
	if passed.Load() != 3 {
		t.Errorf("%d passed at once, want 3", passed.Load())
	}
	if out := check("a", 1); out.GetAllowed() || out.GetRetryAfter().AsDuration() < 7*time.Hour || out.GetRetryAfter().AsDuration() > 8*time.Hour {
		t.Errorf("the fourth: %v", out)
	}
	if out := check("b", 2); !out.GetAllowed() || out.GetRemaining() != 1 || out.GetLimit() != 3 {
		t.Errorf("another client: %v", out)
	}
}

func TestOptionsThatAreRefused(t *testing.T) {
	for name, o := range map[string]client.Options{
		"address":        {Address: "ftp://h"},
		"timeout":        {Timeout: -1},
		"fallback":       {Fallback: 9},
		"local limit of": {Fallback: client.FailLocal},
		"1 requests":     {Fallback: client.FailLocal, Local: client.LocalLimit{Requests: 1, Per: 1 << 62}},
	} {
		if _, err := client.New(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := newClient(t, client.Options{})
	for name, o := range map[string]client.MiddlewareOptions{
		"needs a Client": {},
		"deny status":    {Client: c, DenyStatus: 200},
		"cookie":         {Client: c, Identity: &identity.Config{APIKeyFrom: []string{"cookie"}}},
	} {
		if _, err := client.Middleware(http.NotFoundHandler(), o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// limited is a service behind the middleware; it answers 202.
func limited(t *testing.T, o client.MiddlewareOptions) string {
	t.Helper()
	h, err := client.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }), o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func get(t *testing.T, url string, lines ...string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		request.Header.Add(name, value)
	}
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestMiddlewareAsks(t *testing.T) {
	asked := make(chan *aliquotv1.CheckRequest, 1)
	server := serve(func(_ context.Context, in *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error) {
		asked <- in
		return &aliquotv1.CheckResponse{Allowed: true, Mode: "no_rule"}, nil
	})
	defer server.Close()
	at := limited(t, client.MiddlewareOptions{
		Client: newClient(t, client.Options{Address: server.URL, Timeout: patient}), Namespace: "n",
		Attributes: func(_ *http.Request, a map[string]string) { a["tier"] = "pro" },
		Cost:       func(*http.Request) int64 { return 7 },
		Costs:      func(*http.Request) map[string]int64 { return map[string]int64{"tokens_in": 500} },
	})
	// What a proxy would say is the client's own word here.
	resp, _ := get(t, at+"/a/../%6frders?x=1", "X-API-Key: k", "X-User-Id: root", "X-Original-URI: /b", "X-Forwarded-Method: PUT", "X-Forwarded-For: 198.51.100.1")
	want := &aliquotv1.CheckRequest{Namespace: "n", Cost: proto.Int64(7), Costs: map[string]int64{"tokens_in": 500}, Attributes: map[string]string{
		"api_key": "k", "endpoint": "/orders", "method": "GET", "ip": "198.51.100.1", "tier": "pro"}}
	if got := <-asked; !proto.Equal(got, want) || resp.StatusCode != http.StatusAccepted {
		t.Errorf("%s: asked %v, want %v", resp.Status, got, want)
	}
	if resp, body := get(t, at, "X-API-Key: a", "X-API-Key: b"); resp.StatusCode != 400 || !strings.Contains(body, "X-API-Key is there 2 times") {
		t.Errorf("two keys: %s %s", resp.Status, body)
	}
}

// Attributes and costs that a proxy in front sets, believed because it is trusted.
func TestMiddlewareMapsHeaders(t *testing.T) {
	asked := make(chan *aliquotv1.CheckRequest, 1)
	server := serve(func(_ context.Context, in *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error) {
		asked <- in
		return &aliquotv1.CheckResponse{Allowed: true, Mode: "no_rule"}, nil
	})
	defer server.Close()
	who := client.DefaultIdentity()
	who.AttributeHeaders = []string{"X-Tier=tier", "X-Tokens=costs.tokens_in"}
	at := limited(t, client.MiddlewareOptions{Client: newClient(t, client.Options{Address: server.URL, Timeout: patient}), Identity: &who})
	get(t, at+"/orders", "X-API-Key: k", "X-Tier: pro", "X-Tokens: 500")
	want := &aliquotv1.CheckRequest{Costs: map[string]int64{"tokens_in": 500}, Attributes: map[string]string{
		"api_key": "k", "endpoint": "/orders", "method": "GET", "ip": "127.0.0.1", "tier": "pro"}}
	if got := <-asked; !proto.Equal(got, want) {
		t.Errorf("asked %v, want %v", got, want)
	}
}

func TestMiddlewareAnswers(t *testing.T) {
	var next atomic.Pointer[aliquotv1.CheckResponse]
	server := serve(func(context.Context, *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error) {
		if out := next.Load(); out != nil {
			return out, nil
		}
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("cost is 0"))
	})
	defer server.Close()
	at := limited(t, client.MiddlewareOptions{Client: newClient(t, client.Options{Address: server.URL, Timeout: patient}), Headers: httpanswer.Legacy, DenyStatus: 503})
	if resp, body := get(t, at); resp.StatusCode != 400 || !strings.Contains(body, "cost is 0") {
		t.Errorf("invalid: %s %s", resp.Status, body)
	}
	next.Store(&aliquotv1.CheckResponse{RuleId: "r", Limit: 5, Mode: "store", RetryAfter: durationpb.New(time.Second + 1), DecisionId: "us-1-1"})
	if resp, body := get(t, at); resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "2" || resp.Header.Get("X-RateLimit-Limit") != "5" ||
		resp.Header.Get("RateLimit") != "" || resp.Header.Get("X-Decision-Id") != "us-1-1" || !strings.Contains(body, `"RATE_LIMIT_EXCEEDED"`) {
		t.Errorf("denied: %s %v %s", resp.Status, resp.Header, body)
	}
	const delay = 60 * time.Millisecond
	next.Store(&aliquotv1.CheckResponse{Allowed: true, RuleId: "r", Limit: 5, Remaining: 4, Mode: "store", Delay: durationpb.New(delay)})
	began := time.Now()
	if resp, _ := get(t, at); resp.StatusCode != http.StatusAccepted || resp.Header.Get("X-RateLimit-Remaining") != "4" || resp.Header.Get("X-RateLimit-Delay") != "" || time.Since(began) < delay {
		t.Errorf("queued: %s %v after %v", resp.Status, resp.Header, time.Since(began))
	}
	server.Close()
	if resp, _ := get(t, at); resp.StatusCode != http.StatusAccepted || resp.Header.Get("X-RateLimit-Policy") != "degraded" || resp.Header.Get("X-RateLimit-Remaining") != "-1" {
		t.Errorf("alone: %s %v", resp.Status, resp.Header)
	}
}

// TestMiddlewareLetsACallerGoThatWaits: a queue is no reason to keep a goroutine.
func TestMiddlewareLetsACallerGoThatWaits(t *testing.T) {
	asked := make(chan struct{}, 1)
	server := serve(func(context.Context, *aliquotv1.CheckRequest) (*aliquotv1.CheckResponse, error) {
		asked <- struct{}{}
		return &aliquotv1.CheckResponse{Allowed: true, Delay: durationpb.New(time.Hour)}, nil
	})
	defer server.Close()
	h, err := client.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was let through") }),
		client.MiddlewareOptions{Client: newClient(t, client.Options{Address: server.URL, Timeout: patient})})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	}()
	<-asked
	cancel()
	select {
	case <-ended:
	case <-time.After(patient):
		t.Fatal("it waits on")
	}
}

// realRegion runs coordinators and a region in this process.
func realRegion(t *testing.T, rules string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		lines, out := io.Pipe()
		c := dev.DefaultConfig()
		c.Coordinators, c.Regions, c.RulesFile, c.PortOffset = 1, []string{"us"}, file, 1000+rand.IntN(30_000)
		c.Out, c.Logger = out, slog.New(slog.DiscardHandler)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			out.CloseWithError(dev.Run(ctx, c))
		}()
		t.Cleanup(func() { cancel(); <-ended })
		if address := readyAt(lines); address != "" {
			go func() { _, _ = io.Copy(io.Discard, lines) }()
			return address
		}
	}
	t.Fatal("no free ports were found")
	return ""
}

// readyAt reads what dev prints, up to "ready", and returns the address in its example;
// nothing if it ended before.
func readyAt(lines io.Reader) string {
	var printed strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(printed.String(), "\nready\n") {
		n, err := lines.Read(buf)
		printed.Write(buf[:n])
		if err != nil {
			return ""
		}
	}
	_, example, _ := strings.Cut(printed.String(), "curl -s http://")
	address, _, _ := strings.Cut(example, "/")
	return address
}

func TestWithARealRegion(t *testing.T) {
	region := realRegion(t, "rules:\n  - {id: per-key, enforcement: independent, params: {capacity: 3, refill_rate: 0.01}}\n")
	c := newClient(t, client.Options{Address: region, Timeout: patient})
	at := limited(t, client.MiddlewareOptions{Client: c})
	for i, want := range []int{202, 202, 202, 429} {
		resp, body := get(t, at+"/orders", "X-API-Key: k")
		if resp.StatusCode != want || resp.Header.Get("X-RateLimit-Limit") != "3" || (want == 429) != strings.Contains(body, "per-key") {
			t.Errorf("request %d: %s %v %s", i, resp.Status, resp.Header, body)
		}
	}
	// The proxy's way sees the same client.
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+region+"/check", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-API-Key", "k")
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 429 || resp.Header.Get("X-Decision-Id") == "" {
		t.Errorf("GET /check: %s %v", resp.Status, resp.Header)
	}
	if _, err := c.Check(t.Context(), &aliquotv1.CheckRequest{Cost: proto.Int64(0)}); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("cost 0: %v", err)
	}
}
