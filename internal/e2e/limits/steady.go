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

// rotate: a client that turns to another region with every request gets its limit,
// not a multiple.
func rotate(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	r, err := bench.Rotate(ctx, clients.BigLoad(l, s.Run))
	if err != nil {
		return nil, err
	}
	return append(promise.Bounded(r), promise.AllAnswered(r), promise.AtLeast("utilisation", r.Utilisation.Min, .95-s.Slack)), nil
}

// stay: a client in one region gets all of it.
func stay(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	c := clients.BigLoad(l, s.Run)
	c.Pattern = bench.Stay
	r, err := bench.Rotate(ctx, c)
	if err != nil {
		return nil, err
	}
	return append(promise.Bounded(r), promise.AllAnswered(r), promise.AtLeast("utilisation after its first second", r.Steady.Min, .98-s.Slack)), nil
}

// manyPaced: many clients at once, each on its way round the regions. No two cores
// can take so many to the bound, so what is asked of them is that nobody is
// denied who is within it.
func manyPaced(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	c := clients.BigLoad(l, s.Run)
	c.Clients, c.Batch, c.Rate, c.Workers = s.Clients, 20, 5, 6
	return many(ctx, c, s)
}

// manyAtTheirBound: each asks for more than a small limit allows.
func manyAtTheirBound(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	c := clients.BigLoad(l, s.Run)
	c.Clients, c.Batch, c.Workers, c.Limit = s.Clients, 20, 6, e2e.Small
	c.Rate = 1.5 * e2e.Small.Bound(s.Run) / s.Run.Seconds()
	c.Attributes["plan"] = "small"
	return many(ctx, c, s)
}

func many(ctx context.Context, c bench.Config, s promise.Scale) ([]promise.Result, error) {
	r, err := bench.Rotate(ctx, c)
	if err != nil {
		return nil, err
	}
	least := promise.AtLeast(fmt.Sprintf("utilisation, least of %d clients", c.Clients), r.Utilisation.Min, .95-s.Slack)
	least.Got += fmt.Sprintf(" (median %.4f, %.0f checks/s, %v)", r.Utilisation.Median, float64(r.Offered)/r.Duration.Seconds(), r.Modes)
	return append(promise.Bounded(r), promise.AllAnswered(r), least), nil
}

// overload: the same clients, as fast as the machine can and faster than it can
// decide; all are answered, and none gets too much.
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
