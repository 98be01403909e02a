package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"aliquot/internal/e2e"
	"aliquot/internal/e2e/clients"
	"aliquot/internal/e2e/promise"
	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

const (
	// hotRule is one of the rules of slow limits, whose keys stay hot without being used. There are
	// hotRules of them: one that had half of a table which is nearly full would get no more of it.
	hotRule = `  - id: hot-%[1]d
    match: {attributes: {plan: hot-%[1]d}}
    params: {capacity: 1000, refill_rate: 0.1}
    enforcement: strict
`
	hotRules = 4
	// absent is a region that is declared and never heard, so that no key cools down: of more than
	// manyHot, half of the table, unused ones do soon, however slow their limits are.
	absent, manyHot = "absent", 100_000
	// heatCost is more than half of one of five floors of that limit.
	heatCost = 150
	// heatBatch is how many keys one call makes hot, heatTogether how many are made hot together,
	// and heatWithin for how long that is tried.
	heatBatch, heatTogether, heatWithin = 500, 10_000, 20 * time.Minute
	// leaseGrows is by how much a lease ends later for certain if it was renewed.
	leaseGrows = 500 * time.Millisecond
)

// HotKeys is a cluster of five regions in which so many keys are hot while the leader is killed,
// so many times, and Within what each region may take until it has its lease again.
type HotKeys struct {
	Keys, Kills int
	Within      time.Duration
	// Founded: the cluster is founded with the keys hot. Checks take tens of minutes to heat more than 100,000.
	Founded bool
	// Log gets a line for each step; nil: nothing.
	Log func(format string, args ...any)
}

// Run starts the cluster with the programs in bin and its state in dir, and ends it. It takes as
// long as it takes to make the keys hot, which is most of it.
func (h HotKeys) Run(ctx context.Context, bin, dir string) (out []promise.Result, err error) {
	setup := e2e.Setup{Regions: []string{"us-east", "us-west", "eu-west", "eu-north", "ap-south"}, Rules: e2e.RulesYAML}
	for i := range hotRules {
		setup.Rules += fmt.Sprintf(hotRule, i)
	}
	if h.Keys > manyHot {
		setup.Absent = absent
	}
	l, err := e2e.New(bin, dir, setup)
	if err != nil {
		return nil, err
	}
	defer l.Stop()
	if err := h.begin(ctx, l); err != nil {
		return nil, err
	}
	load := clients.BigLoad(l, time.Hour)
	load.Run, load.Rate = fmt.Sprint("hot", time.Now().UnixNano()), 50
	loading, end := context.WithCancel(ctx)
	defer end()
	run := clients.Begin(loading, load)
	for n := range h.Kills {
		took, err := h.kill(ctx, l)
		if err != nil {
			return nil, l.WithLogs(err)
		}
		out = append(out, promise.AtMost(fmt.Sprintf("seconds until every region has its lease again, kill %d", n+1), took.Seconds(), h.Within.Seconds()))
	}
	end()
	r, err := run.Wait()
	if err != nil {
		return nil, err
	}
	return append(append(out, promise.Bounded(r)...), promise.AllAnswered(r)), nil
}

// begin starts the cluster, and returns when the keys are hot in all regions.
func (h HotKeys) begin(ctx context.Context, l *e2e.Cluster) error {
	if !h.Founded {
		if err := l.Run(ctx); err != nil {
			return err
		}
		return h.heat(ctx, l)
	}
	if err := foundWithHotKeys(ctx, l, h.Keys); err != nil {
		return err
	}
	began := time.Now()
	if err := l.Run(ctx); err != nil {
		return err
	}
	err := e2e.Until(ctx, heatWithin, fmt.Sprintf("%d keys hot in every region", h.Keys), func() error {
		hot, err := h.hot(ctx, l)
		if err == nil && slices.Min(hot) < float64(h.Keys) {
			err = fmt.Errorf("%v are", hot)
		}
		return err
	})
	if err != nil {
		return l.WithLogs(err)
	}
	h.log("%.1f s after the start the keys are hot", time.Since(began).Seconds())
	return nil
}

func (h HotKeys) log(format string, args ...any) {
	if h.Log != nil {
		h.Log(format, args...)
	}
}

// heat uses keys, some at a time and each in one of the regions, until all are hot in all of them.
// In a table that is half full a key becomes hot when it is denied, as each is the second time.
func (h HotKeys) heat(ctx context.Context, l *e2e.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, heatWithin)
	defer cancel()
	began := time.Now()
	for from := 0; from < h.Keys; {
		to := min(from+heatTogether, h.Keys)
		var wait sync.WaitGroup
		errs := make([]error, len(l.Regions))
		for i, r := range l.Regions {
			wait.Go(func() { errs[i] = h.use(ctx, l, r, from+i, to) })
		}
		wait.Wait()
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("the keys did not all become hot: %w", err)
		}
		hot, err := h.hot(ctx, l)
		if err != nil {
			return err
		}
		if slices.Min(hot) >= float64(to) {
			h.log("%.0f s: %v keys are hot", time.Since(began).Seconds(), hot)
			from = to
		}
	}
	return nil
}

// use asks one region for its part of the keys from one to another.
func (h HotKeys) use(ctx context.Context, l *e2e.Cluster, r *e2e.Region, from, to int) error {
	client := aliquotv1connect.NewLimiterServiceClient(l.HTTP, rpc.BaseURL(r.Address))
	batch, cost := &aliquotv1.CheckBatchRequest{}, int64(heatCost)
	for i := from; i < to; i += len(l.Regions) {
		batch.Requests = append(batch.Requests, &aliquotv1.CheckRequest{
			Attributes: map[string]string{"plan": fmt.Sprintf("hot-%d", i%hotRules), "api_key": fmt.Sprintf("hot-%d", i)}, Cost: &cost,
		})
		if len(batch.Requests) == heatBatch || i+len(l.Regions) >= to {
			if _, err := client.CheckBatch(ctx, batch); err != nil {
				return err
			}
			batch.Requests = batch.Requests[:0]
		}
	}
	return nil
}

// hot is how many keys are hot in each region.
func (h HotKeys) hot(ctx context.Context, l *e2e.Cluster) ([]float64, error) {
	out := make([]float64, len(l.Regions))
	for i, r := range l.Regions {
		var err error
		if out[i], err = l.Metric(ctx, r, "aliquot_hot_keys"); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// kill kills the leader, and starts it again once every region has its lease from another one.
func (h HotKeys) kill(ctx context.Context, l *e2e.Cluster) (time.Duration, error) {
	hot, err := h.hot(ctx, l)
	if err != nil {
		return 0, err
	}
	leader, err := l.SomeLeader(ctx)
	if err != nil {
		return 0, err
	}
	killed := time.Now()
	if err := leader.Kill9(); err != nil {
		return 0, err
	}
	ends := make([]time.Time, len(l.Regions))
	for i, r := range l.Regions {
		left, err := l.Lease(ctx, r)
		if err != nil {
			return 0, err
		}
		ends[i] = time.Now().Add(left)
	}
	var last time.Duration
	var shown time.Time
	for i, r := range l.Regions {
		err := e2e.Until(ctx, 10*h.Within, r.Name+" leased by the next leader", func() error {
			if time.Since(shown) > time.Second {
				shown = time.Now()
				h.log("%.1f s after the kill: %v keys of %v applied", time.Since(killed).Seconds(), h.all(ctx, l, "applied"), h.all(ctx, l, "told"))
			}
			left, err := l.Lease(ctx, r)
			if err == nil && (left <= 0 || time.Now().Add(left).Before(ends[i].Add(leaseGrows))) {
				err = errors.New("its lease was not renewed")
			}
			return err
		})
		if err != nil {
			return 0, err
		}
		last = time.Since(killed)
	}
	h.log("%v keys were hot; leases again after %.1f s", hot, last.Seconds())
	return last, errors.Join(leader.Start(), l.AwaitAllCoordinators(ctx))
}

// all is the value of the progress of each region's application.
func (h HotKeys) all(ctx context.Context, l *e2e.Cluster, state string) (out []float64) {
	for _, r := range l.Regions {
		v, _ := l.Metric(ctx, r, `aliquot_apply_keys{state="`+state+`"}`) // shown only
		out = append(out, v)
	}
	return out
}
