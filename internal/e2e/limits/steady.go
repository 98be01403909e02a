package limits

import (
	"context"
	"fmt"
	"strings"

	"aliquot/internal/bench"
	"aliquot/internal/e2e"
	"aliquot/internal/e2e/clients"
	"aliquot/internal/e2e/promise"
)

// rotate: a client that sends each request to the next region gets its limit, not a multiple of it.
func rotate(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	r, err := bench.Rotate(ctx, clients.BigLoad(l, s.Run))
	if err != nil {
		return nil, err
	}
	return append(promise.Bounded(r), promise.AllAnswered(r), promise.AtLeast("utilisation", r.Utilisation.Min, .95-s.Slack)), nil
}

// stay: a client that asks one region gets its whole limit there.
func stay(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	c := clients.BigLoad(l, s.Run)
	c.Pattern = bench.Stay
	r, err := bench.Rotate(ctx, c)
	if err != nil {
		return nil, err
	}
	return append(promise.Bounded(r), promise.AllAnswered(r), promise.AtLeast("utilisation after its first second", r.Steady.Min, .98-s.Slack)), nil
}

// manyPaced: many clients at once, each of which asks the regions in turn and stays within its limit. None is denied.
// Two cores are too few to bring so many clients to their limits.
func manyPaced(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	c := clients.BigLoad(l, s.Run)
	c.Clients, c.Batch, c.Rate, c.Workers = s.Clients, 20, 5, 6
	return many(ctx, c, s)
}

// manyAtTheirBound: many clients ask for more than a small limit allows, and get that limit.
func manyAtTheirBound(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	c := clients.BigLoad(l, s.Run)
	c.Clients, c.Batch, c.Workers, c.Limit = s.Clients, 20, 6, e2e.Small
	c.Rate = 1.5 * e2e.Small.Bound(s.Run) / s.Run.Seconds()
	c.Attributes["plan"] = "small"
	return many(ctx, c, s)
}

// many runs a load of many clients. Each gets its limit, and none gets more.
func many(ctx context.Context, c bench.Config, s promise.Scale) ([]promise.Result, error) {
	r, err := bench.Rotate(ctx, c)
	if err != nil {
		return nil, err
	}
	least := promise.AtLeast(fmt.Sprintf("utilisation, least of %d clients", c.Clients), r.Utilisation.Min, .95-s.Slack)
	least.Got += fmt.Sprintf(" (median %.4f, %.0f checks/s, %v)", r.Utilisation.Median, float64(r.Offered)/r.Duration.Seconds(), r.Modes)
	return append(promise.Bounded(r), promise.AllAnswered(r), least), nil
}

// overload: many clients ask faster than the machine can decide. All are answered, and none gets more than its limit.
func overload(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	c := clients.BigLoad(l, s.Run)
	c.Clients, c.Batch = s.Clients, 50
	r, err := bench.Rotate(ctx, c)
	if err != nil {
		return nil, err
	}
	return append(promise.Bounded(r), promise.AllAnswered(r)), l.AwaitLeases(ctx)
}

// rulesChanged: a change reaches every region within 2 s.
func rulesChanged(ctx context.Context, l *e2e.Cluster, _ promise.Scale) ([]promise.Result, error) {
	changed := strings.Replace(e2e.RulesYAML, "capacity: 60,", "capacity: 61,", 1)
	took, err := l.ApplyRules(ctx, changed, 61)
	if err != nil {
		return nil, err
	}
	back, err := l.ApplyRules(ctx, e2e.RulesYAML, 60)
	return []promise.Result{
		promise.AtMost("seconds until a change is in force everywhere", took.Seconds(), 2),
		promise.AtMost("seconds until it is undone everywhere", back.Seconds(), 2),
	}, err
}
