package coordinator_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"aliquot/coordinator"
	"aliquot/internal/testaddr"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// patience is how long a test waits for something that should come in a second: a test
// fails when it hangs, however slow its machine is.
const patience = 5 * time.Minute

const someRules = `defaults: {enforcement: strict}
rules:
  - id: r1
    key: [api_key]
    params: {capacity: 100, refill_rate: 10}
    override: {"vip": {capacity: 1000, refill_rate: 100}}
  - id: all
    key: []
    params: {capacity: 300, refill_rate: 100}
`

// running is one coordinator in this process, with clients for it.
type running struct {
	coordinator.Addresses
	cfg    coordinator.Config
	cancel context.CancelFunc
	done   chan error

	budgets aliquotv1connect.BudgetServiceClient
	cluster aliquotv1connect.ClusterServiceClient
	lease   aliquotv1connect.LeaseServiceClient
	regions aliquotv1connect.RegionServiceClient
	rules   aliquotv1connect.RuleServiceClient
}

// testConfig is for the i-th of n coordinators on ports of their own.
func testConfig(t *testing.T, i, n int) coordinator.Config {
	cfg := coordinator.DefaultConfig()
	cfg.NodeID, cfg.DataDir, cfg.BootstrapExpect = fmt.Sprintf("c%d", i), t.TempDir(), n
	address := testaddr.Free()
	cfg.Listen, cfg.RaftListen, cfg.GossipListen, cfg.OpsListen = address, address, address, address
	cfg.Regions = []string{"us", "eu", "ap"}
	if n > 1 {
		cfg.RaftMultiplier = 5 // who leads is to lead as long as the test goes by it, though a node stands still for two seconds
	}
	cfg.Logger = slog.New(slog.NewTextHandler(untilEnd(t), &slog.HandlerOptions{Level: slog.LevelWarn}))
	return cfg
}

// start runs a coordinator until the test ends or stop is called.
func start(t *testing.T, cfg coordinator.Config) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{cancel: cancel, done: make(chan error, 1)}
	listening := make(chan coordinator.Addresses, 1)
	cfg.OnListening = func(a coordinator.Addresses) { listening <- a }
	go func() { r.done <- coordinator.Run(ctx, cfg) }()
	select {
	case r.Addresses = <-listening:
	case err := <-r.done:
		cancel()
		t.Fatalf("Run: %v", err)
	case <-time.After(patience):
		cancel()
		t.Fatalf("%s did not come up", cfg.NodeID)
	}
	t.Cleanup(func() { r.stop(t) })
	// A restart keeps its addresses.
	cfg.Listen, cfg.RaftListen, cfg.GossipListen, cfg.OpsListen = r.RPC, r.Raft, r.Gossip, r.Ops
	r.cfg = cfg
	url := "http://" + r.RPC
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	bounded := connect.WithInterceptors(connect.UnaryInterceptorFunc(withPatience))
	led := connect.WithInterceptors(connect.UnaryInterceptorFunc(withPatience), connect.UnaryInterceptorFunc(untilLed))
	r.budgets = aliquotv1connect.NewBudgetServiceClient(client, url, led)
	r.cluster = aliquotv1connect.NewClusterServiceClient(client, url, led)
	r.lease = aliquotv1connect.NewLeaseServiceClient(client, url, bounded) // a region asks again by itself
	r.regions = aliquotv1connect.NewRegionServiceClient(client, url, led)
	r.rules = aliquotv1connect.NewRuleServiceClient(client, url, led)
	return r
}

// withPatience bounds every unary call, so that a hang names the call it is in.
func withPatience(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		ctx, cancel := context.WithTimeout(ctx, patience/2)
		defer cancel()
		return next(ctx, req)
	}
}

// untilLed repeats a call that was refused, with nothing changed, because nobody leads:
// a machine that stops for a moment has an election any time. At the end of its context
// that refusal is the answer.
func untilLed(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		again := time.NewTicker(20 * time.Millisecond)
		defer again.Stop()
		var refused error
		for {
			res, err := next(ctx, req)
			if err != nil && refused != nil && ctx.Err() != nil {
				return res, refused
			}
			if !leaderless(err) {
				return res, err
			}
			refused = err
			select {
			case <-again.C:
			case <-ctx.Done():
				return res, err
			}
		}
	}
}

// leaderless tells the refusals in the gap between two leaders.
func leaderless(err error) bool {
	return connect.CodeOf(err) == connect.CodeUnavailable &&
		(strings.Contains(err.Error(), "no leader is known") || strings.Contains(err.Error(), "taking charge"))
}

func (r *running) stop(t *testing.T) {
	t.Helper()
	if r.done == nil {
		return
	}
	r.cancel()
	select {
	case err := <-r.done:
		if err != nil {
			t.Errorf("Run of %s: %v", r.cfg.NodeID, err)
		}
	case <-time.After(patience):
		t.Errorf("Run of %s did not end", r.cfg.NodeID)
	}
	r.done = nil
}

// startCluster runs n coordinators that form one cluster, and waits for its leader.
func startCluster(t *testing.T, n int) []*running {
	t.Helper()
	var all []*running
	for i := range n {
		cfg := testConfig(t, i+1, n)
		if i > 0 {
			cfg.Join = []string{all[0].Gossip}
		}
		all = append(all, start(t, cfg))
	}
	for _, r := range all {
		r.waitReady(t)
	}
	return all
}

// eventually polls until ok returns "", else fails with what it last returned.
func eventually(t *testing.T, ok func() string) {
	t.Helper()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	limit := time.After(patience)
	for {
		why := ok()
		if why == "" {
			return
		}
		select {
		case <-poll.C:
		case <-limit:
			t.Fatalf("after %s: %s", patience, why)
		}
	}
}

// waitReady waits until the node follows or leads and someone has taken charge.
func (r *running) waitReady(t *testing.T) {
	t.Helper()
	eventually(t, func() string {
		if code, body := r.get(t, "http://"+r.Ops+"/readyz"); code != http.StatusOK {
			return body
		}
		s, err := r.cluster.GetStatus(t.Context(), &aliquotv1.GetStatusRequest{})
		switch {
		case err != nil:
			return err.Error()
		case s.GetEpoch() == 0:
			return "no epoch yet"
		case len(s.GetRegions()) == 0 || s.GetRegions()[0].GetState() == "unknown":
			return "the leader cannot be asked yet"
		}
		return ""
	})
}

func (r *running) get(t *testing.T, url string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience/2)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(body)
}

// post sends raw JSON to a method of the coordinator.
func (r *running) post(t *testing.T, method, body string, header ...string) (int, string) {
	t.Helper()
	got := r.send(t, http.MethodPost, "/aliquot.v1."+method, body, append([]string{"Content-Type", "application/json"}, header...)...)
	return got.status, got.body
}

// response is an answer over HTTP.
type response struct {
	status int
	header http.Header
	body   string
}

// send sends a request to the coordinator. header has names and values in turn.
func (r *running) send(t *testing.T, method, path, body string, header ...string) response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience/2)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.RPC+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{res.StatusCode, res.Header, string(text)}
}

// applyRules applies rules whatever is in force, once, also if the leader ends before it tells the outcome.
func (r *running) applyRules(t *testing.T, yaml string) (version uint64) {
	t.Helper()
	before := status(t, r).GetRulesVersion()
	doubt := false
	eventually(t, func() string {
		res, err := r.rules.ApplyRules(t.Context(), &aliquotv1.ApplyRulesRequest{Yaml: yaml, ExpectedVersion: &before})
		if version = res.GetVersion(); err == nil {
			return ""
		}
		now, errNow := r.rules.GetRules(t.Context(), &aliquotv1.GetRulesRequest{})
		if doubt && errNow == nil && now.GetVersion() == before+1 && now.GetYaml() == yaml {
			version = now.GetVersion()
			return ""
		}
		doubt = doubt || unknownOutcome(err)
		switch {
		case !doubt && connect.CodeOf(err) == connect.CodeFailedPrecondition && now.GetVersion() > before:
			before = now.GetVersion() // this node had not heard of it
		case !doubt:
			t.Fatalf("ApplyRules: %v", err)
		}
		return err.Error()
	})
	return version
}

// unknownOutcome reports that a change may have been made, or not: its leader has ended.
func unknownOutcome(err error) bool {
	return connect.CodeOf(err) == connect.CodeUnavailable && strings.Contains(err.Error(), "may or may not have been applied")
}

func status(t *testing.T, r *running) *aliquotv1.GetStatusResponse {
	t.Helper()
	s, err := r.cluster.GetStatus(t.Context(), &aliquotv1.GetStatusRequest{})
	if err != nil {
		t.Fatalf("GetStatus: %v", err)
	}
	return s
}

// split tells the leader from the others.
func split(t *testing.T, all []*running) (leader *running, followers []*running) {
	t.Helper()
	eventually(t, func() string {
		leader, followers = nil, nil
		for _, r := range all {
			if status(t, r).GetState() == "leader" {
				leader = r
			} else {
				followers = append(followers, r)
			}
		}
		if leader == nil || len(followers) != len(all)-1 {
			return "not exactly one leader"
		}
		return ""
	})
	return leader, followers
}

// untilEnd is a test's output for as long as the test lasts: memberlist's goroutines
// are not waited for, and what they say after it would be a panic.
func untilEnd(t *testing.T) io.Writer {
	w := &endingWriter{to: t.Output()}
	t.Cleanup(w.end)
	return w
}

type endingWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *endingWriter) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = io.Discard
}

// Write is for io.Writer.
func (w *endingWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}
