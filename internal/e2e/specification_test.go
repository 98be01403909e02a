package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// specified is the specification's configuration, as it stands there.
const specified = "../../rules/testdata/specification.yaml"

// specifiedPath is what its clients ask for. They name no tier.
const specifiedPath = "/v1/orders/7"

// edge is one way to ask for a decision: whether the request passes, and the limit that
// the answer tells of, 0 if none.
type edge struct {
	name string
	ask  func(t *testing.T, apiKey string) (passes bool, limit int64)
}

// edges are all ways to ask one region.
func edges(t *testing.T, r *Region) []edge {
	t.Helper()
	out := []edge{{"check", func(t *testing.T, apiKey string) (bool, int64) {
		answer, err := checkAt(t.Context(), r, apiKey)
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetAllowed(), answer.GetLimit()
	}}}
	port := freePort(t)
	config := configured(t, "nginx/nginx.conf", r.Address, port)
	out = append(out, overHTTP("nginx", startProxy(t, port, "nginx", "-p", filepath.Dir(config), "-c", config, "-e", "stderr", "-g", "daemon off; master_process off;")))
	port = freePort(t)
	out = append(out, overHTTP("caddy", startProxy(t, port, "caddy", "run", "--adapter", "caddyfile", "--config", configured(t, "caddy/Caddyfile", r.Address, port))))
	port = freePort(t)
	out = append(out, overHTTP("go", startProxy(t, port, exampleService(t), "-listen", "127.0.0.1:"+port, "-region", r.Address)))
	return append(out, overRLS(t, r))
}

func overHTTP(name string, p proxy) edge {
	return edge{name, func(t *testing.T, apiKey string) (bool, int64) {
		resp, body := p.send(t, "GET", specifiedPath, "", "X-API-Key: "+apiKey)
		if resp.StatusCode >= 500 || resp.StatusCode >= 400 && resp.StatusCode != 429 {
			t.Fatalf("%s: %s %s", name, resp.Status, body)
		}
		limit, _ := strconv.ParseInt(resp.Header.Get("X-RateLimit-Limit"), 10, 64)
		return resp.StatusCode != 429, limit
	}}
}

// overRLS asks as Envoy does.
func overRLS(t *testing.T, r *Region) edge {
	t.Helper()
	conn, err := grpc.NewClient(r.Flag("--grpc-listen"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	client := ratelimitv3.NewRateLimitServiceClient(conn)
	return edge{"envoy", func(t *testing.T, apiKey string) (bool, int64) {
		answer, err := client.ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{Domain: "edge", Descriptors: []*descriptorv3.RateLimitDescriptor{{
			Entries: []*descriptorv3.RateLimitDescriptor_Entry{{Key: "api_key", Value: apiKey}, {Key: "endpoint", Value: specifiedPath}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetOverallCode() == ratelimitv3.RateLimitResponse_OK, int64(answer.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit())
	}}
}

func checkAt(ctx context.Context, r *Region, apiKey string) (*aliquotv1.CheckResponse, error) {
	return aliquotv1connect.NewLimiterServiceClient(rpc.NewHTTPClient(), rpc.BaseURL(r.Address)).Check(ctx, &aliquotv1.CheckRequest{
		Attributes: map[string]string{"api_key": apiKey, "endpoint": specifiedPath},
	})
}

// drain asks until a denial, at most most times, and returns how many passed, how many
// could have been earned meanwhile at a rate a second, and the limit told last.
func (e edge) drain(t *testing.T, apiKey string, most int, rate float64) (passed, earned int, limit int64) {
	t.Helper()
	began := time.Now()
	for range most {
		passes, told := e.ask(t, apiKey)
		limit = told
		if !passes {
			break
		}
		passed++
	}
	return passed, 1 + int(time.Since(began).Seconds()*rate), limit
}

// has fails unless a client has a burst at once, at an edge, and returns the client's key. More than it
// earned meanwhile may only be what other regions held of the burst and gave up: these limits are elastic.
// Another client is asked if the daemon counted that it lost what this one had: it had no CPU for so long
// that what it borrowed of the store was over, or that the store's answer was too late.
func (e edge) has(t *testing.T, l *Cluster, r *Region, apiKey string, burst int, rate float64) (key string) {
	t.Helper()
	for try := range mostClients {
		key = fmt.Sprintf("%s_%d", apiKey, try)
		before := l.starved(t, r)
		passed, earned, limit := e.drain(t, key, 4*burst, rate)
		wrong := fmt.Sprintf("%s: %s had %d at once and may earn %d meanwhile, of a limit of %d; want %d", e.name, key, passed, earned, limit, burst)
		switch {
		case passed > len(RegionNames)*burst+earned || limit != int64(burst):
			t.Error(wrong)
		case passed < burst:
			err := Until(t.Context(), countedWithin, "counted as the daemon's loss", func() error {
				if l.starved(t, r) == before {
					return errors.New(wrong)
				}
				return nil
			})
			if err == nil {
				continue
			}
			t.Error(err)
		}
		return key
	}
	t.Errorf("%s: each of %d clients lost something", e.name, mostClients)
	return key
}

const (
	// mostClients bounds how many clients are asked on a machine that is busy: a fault fails each time.
	mostClients = 20
	// countedWithin is when a daemon that gets CPU again has counted what it lost.
	countedWithin = 5 * time.Second
)

// starved is how often a region's daemon lost what it had borrowed, or had no answer of its store in time.
func (l *Cluster) starved(t *testing.T, r *Region) (times float64) {
	t.Helper()
	for _, series := range []string{"aliquot_chunks_lost_total", "aliquot_store_errors_total"} {
		values, err := l.metrics(t.Context(), r.Ops(), series)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			times += v
		}
	}
	return times
}

// TestSpecification: the specification's configuration as it stands, on real processes,
// asked in every way, and then its PUT.
func TestSpecification(t *testing.T) {
	t.Parallel()
	cluster, yaml := startCluster(t, Setup{}, specified)
	awaitPro(t, cluster, 100)
	here := cluster.Regions[0]
	all := edges(t, here)
	const before, after, vip = 1.67, 500. / 60, 16.67
	vipPassed, spent := 0, map[string]string{}
	for _, e := range all {
		spent[e.name] = e.has(t, cluster, here, "sk_prod_abc_"+e.name, 100, before)
		passed, _, limit := e.drain(t, "sk_prod_vip_001", 250, vip)
		vipPassed += passed
		if limit != 1000 {
			t.Errorf("%s: the vip has %d", e.name, limit)
		}
		if passed, _, limit := e.drain(t, "sk_internal_1", 300, 0); passed != 300 || limit != 0 {
			t.Errorf("%s: %d of 300 passed on the whitelist, of a limit of %d", e.name, passed, limit)
		}
		if passes, limit := e.ask(t, "sk_revoked_1"); passes || limit != 0 {
			t.Errorf("%s: a key on the blacklist passes", e.name)
		}
		// 100 a minute over three regions: one of them admits its part, 33, at once, and the
		// rest as the others' parts move; never more than 100.
		if passed, _, limit := e.drain(t, "sk_free_"+e.name, 200, 0); passed < 33 || passed > 100 || limit != 100 {
			t.Errorf("%s: %d of 100 a minute passed at once, of a limit of %d", e.name, passed, limit)
		}
	}
	if vipPassed < 1000 {
		t.Errorf("the vip had %d of %d at once, want 1000", vipPassed, 250*len(all))
	}

	changed := curlPut(t, cluster, "pro", `{"limit": 500, "capacity": 500}`)
	if len(changed) != 1 || changed[0].RuleID != "rule_001" || changed[0].Before.Limit != "100" || changed[0].After.Limit != "500" {
		t.Errorf("the answer to the PUT: %+v", changed)
	}
	t.Logf("in force in every region %v after the answer", awaitPro(t, cluster, 500))
	for _, e := range all {
		e.has(t, cluster, here, "sk_prod_new_"+e.name, 500, after)
		if passed, earned, limit := e.drain(t, spent[e.name], 500, after); limit != 500 || passed == 500 {
			t.Errorf("%s: a client that had spent its burst has %d at once of %d, and earned %d: its bucket keeps what it holds", e.name, passed, limit, earned)
		}
		if _, limit := e.ask(t, "sk_prod_vip_001"); limit != 1000 {
			t.Errorf("%s: the vip has %d, not its own 1000", e.name, limit)
		}
		if _, limit := e.ask(t, "sk_free_other"); limit != 100 {
			t.Errorf("%s: the other tier has %d", e.name, limit)
		}
	}

	// The value is no part of the file, and a region knows it without coordinators.
	apply(t, cluster, yaml)
	awaitPro(t, cluster, 500)
	for _, c := range cluster.Coordinators {
		if err := c.Kill9(); err != nil {
			t.Fatal(err)
		}
	}
	if err := here.Terminate(); err != nil {
		t.Fatal(err)
	}
	if err := here.Start(); err != nil {
		t.Fatal(err)
	}
	awaitProIn(t, here, 500)
}

// awaitPro waits until every region gives a pro client a limit, and returns how long
// that took.
func awaitPro(t *testing.T, l *Cluster, limit int64) time.Duration {
	t.Helper()
	began := time.Now()
	for _, r := range l.Regions {
		awaitProIn(t, r, limit)
	}
	return time.Since(began)
}

func awaitProIn(t *testing.T, r *Region, limit int64) {
	t.Helper()
	err := Until(t.Context(), inForceWithin, r.Region+" giving pro clients the limit", func() error {
		answer, err := checkAt(t.Context(), r, "sk_prod_probe")
		if err == nil && answer.GetLimit() != limit {
			err = fmt.Errorf("the limit is %d, want %d", answer.GetLimit(), limit)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// tierRule is one rule of the answer to a PUT of a tier.
type tierRule struct {
	RuleID        string `json:"ruleId"`
	Before, After struct{ Limit string }
}

// curlPut sets the value of a tier as `curl -X PUT -d` does.
func curlPut(t *testing.T, l *Cluster, tier, body string) []tierRule {
	t.Helper()
	var answer struct{ TierRules []tierRule }
	err := WhenLed(t.Context(), func() error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, rpc.BaseURL(l.Coordinators[1].Address)+"/rules/tier/"+tier, strings.NewReader(body))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response, err := l.HTTP.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode != http.StatusOK {
			return fmt.Errorf("PUT /rules/tier/%s: %s: %s", tier, response.Status, text)
		}
		return json.Unmarshal(text, &answer)
	})
	if err != nil {
		t.Fatal(err)
	}
	return answer.TierRules
}
