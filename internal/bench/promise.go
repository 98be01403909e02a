package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"aliquot/internal/rpc"
	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
	"aliquot/rules"
)

// Limit is a token bucket: Capacity tokens of burst, Refill tokens a second.
type Limit struct {
	Capacity float64 `json:"capacity"`
	Refill   float64 `json:"refill"`
}

// Bound is the most such a bucket admits in an interval of that length.
func (l Limit) Bound(d time.Duration) float64 { return l.Capacity + l.Refill*d.Seconds() }

func (l Limit) known() bool { return l.Capacity > 0 && l.Refill > 0 }

// askWithin bounds one question to a coordinator.
const askWithin = 5 * time.Second

// enforcementNames lists them for messages.
const enforcementNames = rules.Strict + ", " + rules.Elastic + " or " + rules.Independent

func knownEnforcement(name string) bool {
	return slices.Contains([]string{rules.Strict, rules.Elastic, rules.Independent}, name)
}

// promise is a limit and how several regions hold it together.
type promise struct {
	limit       Limit
	enforcement string
	regions     int
	// windows: the limit counts in windows. In no time one ends and the next begins, on
	// two clocks almost a window apart: three times the capacity.
	windows bool
}

// given is the promise of a configuration that states its limit.
func given(c *Config) promise {
	p := promise{limit: c.Limit, enforcement: c.Enforcement, regions: len(c.Regions)}
	if p.enforcement == "" {
		p.enforcement = rules.Strict
	}
	return p
}

// bucket bounds what all regions together admit of one key: N times the burst if a
// key that was idle everywhere may burst in each region, N times all if each region
// holds the limit alone.
func (p promise) bucket() Limit {
	l, n := p.limit, float64(p.regions)
	if p.windows {
		l.Capacity *= 3
	}
	switch p.enforcement {
	case rules.Elastic:
		return Limit{Capacity: n * l.Capacity, Refill: l.Refill}
	case rules.Independent:
		return Limit{Capacity: n * l.Capacity, Refill: n * l.Refill}
	}
	return l
}

// ask learns the promise of the rule that decides the run's requests. It sends one
// check, as a client that does not take part in the run.
func ask(ctx context.Context, c *Config, targets []*target) (promise, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	probe := request(c, c.Run+"-probe", 0)
	answers, err := targets[0].send(ctx, []*aliquotv1.CheckRequest{probe})
	if err != nil {
		return promise{}, fmt.Errorf("check at %s: %w; is the region running? (see `aliquot dev` or `make up`)", targets[0].address, err)
	}
	rule := answers[0].GetRuleId()
	if rule == "" {
		return promise{}, fmt.Errorf("no rule matches the requests (mode %s); apply a rule for them or change --attr", answers[0].GetMode())
	}
	asked := aliquotv1connect.NewRuleServiceClient(rpc.NewHTTPClient(), rpc.BaseURL(c.Coordinator))
	inForce, err := asked.GetRules(ctx, &aliquotv1.GetRulesRequest{})
	if err != nil {
		return promise{}, fmt.Errorf("limit of rule %s from coordinator %s: %w; or give --capacity and --refill", rule, c.Coordinator, err)
	}
	p, err := promiseOf(inForce.GetYaml(), rule, probe.Attributes["api_key"])
	if err == nil && p.enforcement != rules.Strict {
		p.regions, err = countRegions(ctx, c.Coordinator)
	}
	return p, err
}

// promiseOf finds a client's limit in the rules; the number of regions is left 0.
func promiseOf(yaml, id, apiKey string) (promise, error) {
	set, _, err := rules.Parse("rules in force", []byte(yaml))
	if err != nil {
		return promise{}, fmt.Errorf("this program does not understand them; give --capacity and --refill: %w", err)
	}
	rule := set.Rule(id)
	if rule == nil {
		return promise{}, fmt.Errorf("rule %s is not among the rules in force; they are changing, try again", id)
	}
	l, _ := rule.LimitFor(apiKey, time.Now().UnixMilli())
	p := promise{limit: limitOf(l), enforcement: rule.Enforcement}
	p.windows = l.Algorithm.Counts() && !l.Algorithm.Logs()
	return p, nil
}

func limitOf(l limit.Limit) Limit {
	rate := l.PerSecond()
	perSecond := float64(rate.Micro) + float64(rate.Frac)/1e6
	return Limit{Capacity: float64(l.Capacity) / float64(limit.Token), Refill: perSecond / float64(limit.Token)}
}

// countRegions is how many regions may admit, as a coordinator declares them. That
// can be more than a run drives: the promise is about all of them.
func countRegions(ctx context.Context, coordinator string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	asked := aliquotv1connect.NewRegionServiceClient(rpc.NewHTTPClient(), rpc.BaseURL(coordinator))
	declared, err := asked.ListRegions(ctx, &aliquotv1.ListRegionsRequest{})
	if err != nil {
		return 0, fmt.Errorf("regions from coordinator %s: %w; is it running? (name another with --coordinator)", coordinator, err)
	}
	n := 0
	for _, r := range declared.GetRegions() {
		switch r.GetStatus() {
		case "drained", "fenced": // admits nothing any more
		default:
			n++
		}
	}
	return n, nil
}
