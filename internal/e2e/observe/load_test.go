package observe

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"aliquot/internal/e2e"
	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// rulesYAML has a rule of each enforcement, and one that fails open.
const rulesYAML = `rules:
  - id: strict
    match: {attributes: {plan: strict}}
    params: {capacity: 30, refill_rate: 10}
    enforcement: strict
  - id: elastic
    match: {attributes: {plan: elastic}}
    params: {capacity: 30, refill_rate: 10}
    enforcement: elastic
  - id: independent
    match: {attributes: {plan: independent}}
    params: {capacity: 30, refill_rate: 10}
    enforcement: independent
  - id: open
    match: {attributes: {plan: open}}
    params: {capacity: 300, refill_rate: 100}
    enforcement: strict
    on_redis_failure: open
blacklist: ["revoked"]
`

// ruleIDs are its rules.
var ruleIDs = []string{"strict", "elastic", "independent", "open"}

// client is one API key that asks every region at an even pace.
type client struct {
	plan, key string
	every     time.Duration // between two checks in the first region
}

// slower is how much slower than in the first region the clients that are not calm ask in each.
var slower = []time.Duration{1, 8, 20}

// clients: of each rule one far above its limit and one far below, and one that is on
// the block list. 56 checks a second in the first region.
var clients = []client{
	{"strict", "busy", 50 * time.Millisecond}, {"strict", "calm", 500 * time.Millisecond},
	{"elastic", "busy", 100 * time.Millisecond}, {"elastic", "calm", 500 * time.Millisecond},
	{"independent", "busy", 100 * time.Millisecond},
	{"open", "calm", 100 * time.Millisecond}, {"strict", "revoked", 500 * time.Millisecond},
}

// load asks until the test ends. allowed and denied count the answers.
type load struct{ allowed, denied, failed atomic.Int64 }

func startLoad(t *testing.T, cluster *e2e.Cluster) *load {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	l := &load{}
	web := rpc.NewHTTPClient()
	for i, region := range cluster.Regions {
		asks := aliquotv1connect.NewLimiterServiceClient(web, rpc.BaseURL(region.Address))
		for _, c := range clients {
			if c.key != "calm" {
				c.every *= slower[i]
			}
			all.Go(func() { l.ask(ctx, asks, c) })
		}
	}
	t.Cleanup(func() { stop(); all.Wait() })
	return l
}

func (l *load) ask(ctx context.Context, asks aliquotv1connect.LimiterServiceClient, c client) {
	pace := time.NewTicker(c.every)
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		answer, err := asks.Check(ctx, &aliquotv1.CheckRequest{Attributes: map[string]string{"plan": c.plan, "api_key": c.key}})
		switch {
		case err != nil:
			l.failed.Add(1)
		case answer.GetAllowed():
			l.allowed.Add(1)
		default:
			l.denied.Add(1)
		}
	}
}

// burst spends an elastic limit's burst in every region at once, with a key of its own,
// slowly enough for the key to become hot meanwhile: what is spent of a cold key is not
// reported.
func burst(ctx context.Context, cluster *e2e.Cluster, key string) {
	const checks, pace = 60, 25 * time.Millisecond
	var all sync.WaitGroup
	for _, region := range cluster.Regions {
		asks := aliquotv1connect.NewLimiterServiceClient(http.DefaultClient, rpc.BaseURL(region.Address))
		all.Go(func() {
			ctx, stop := context.WithTimeout(ctx, checks*pace)
			defer stop()
			new(load).ask(ctx, asks, client{"elastic", key, pace})
		})
	}
	all.Wait()
}

// applyRules puts the rules above in force, in every region.
func applyRules(t *testing.T, cluster *e2e.Cluster, p *prometheus) {
	t.Helper()
	rules := aliquotv1connect.NewRuleServiceClient(http.DefaultClient, rpc.BaseURL(cluster.Coordinators[0].Address))
	var applied *aliquotv1.ApplyRulesResponse
	until(t, alertWithin, "the rules are applied", func() (err error) {
		applied, err = rules.ApplyRules(t.Context(), &aliquotv1.ApplyRulesRequest{Yaml: rulesYAML})
		return err
	})
	until(t, alertWithin, "the rules are in force everywhere", func() error {
		seen, err := p.query("aliquot_rules_version")
		if err != nil {
			return err
		}
		if want := len(cluster.Coordinators) + len(cluster.Regions); len(seen) != want {
			return fmt.Errorf("%d of %d daemons are seen", len(seen), want)
		}
		for _, r := range seen {
			if r.Value.value != float64(applied.GetVersion()) {
				return fmt.Errorf("%v has version %v of %d", r.Metric, r.Value.value, applied.GetVersion())
			}
		}
		return nil
	})
}
