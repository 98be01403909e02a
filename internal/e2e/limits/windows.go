package limits

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"aliquot/internal/e2e"
	"aliquot/internal/e2e/promise"
	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// The counting limits of RulesYAML.
const (
	windowLimit = 60
	window      = 2 * time.Second
)

// counting are the plans with a counting limit.
var counting = []string{"fixed", "counter", "log"}

// Windows: a client of a counting limit sends each request to the next region, and twice as many as it may. In no
// window it gets more than the limit, also while the leader is killed.
func Windows(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	run := fmt.Sprint("windows", time.Now().UnixNano())
	got, errs := make([]admissions, len(counting)), make([]error, len(counting))
	deadline, stop := context.WithTimeout(ctx, s.Run+4*window)
	defer stop()
	var clients sync.WaitGroup
	for i, plan := range counting {
		clients.Go(func() { got[i], errs[i] = askInTurn(deadline, l, plan, run) })
	}
	e2e.Pause(ctx, s.Run/3+2*window)
	leader, err := l.SomeLeader(ctx)
	if err != nil {
		return nil, err
	}
	if err := leader.Kill9(); err != nil {
		return nil, err
	}
	clients.Wait()
	if err := errors.Join(append(errs, leader.Start(), l.AwaitLeases(ctx), l.AwaitAllCoordinators(ctx))...); err != nil {
		return nil, err
	}
	var out []promise.Result
	for i, plan := range counting {
		out = append(out, got[i].results(plan, s)...)
	}
	return out, nil
}

// admissions are the admissions of one client, in the order of their requests.
type admissions struct {
	at     []e2e.Admitted
	length time.Duration
}

// askInTurn sends twice as many requests as the limit allows, each to the next region.
func askInTurn(ctx context.Context, l *e2e.Cluster, plan, run string) (a admissions, err error) {
	var regions []aliquotv1connect.LimiterServiceClient
	for _, r := range l.Regions {
		regions = append(regions, aliquotv1connect.NewLimiterServiceClient(l.HTTP, rpc.BaseURL(r.Address)))
	}
	in := &aliquotv1.CheckRequest{Attributes: map[string]string{"plan": plan, "api_key": run}}
	tick := time.NewTicker(window / (2 * windowLimit))
	defer tick.Stop()
	began := time.Now()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			a.length = time.Since(began)
			return a, nil
		case <-tick.C:
		}
		sent := time.Now()
		answer, err := regions[i%len(regions)].Check(context.WithoutCancel(ctx), in)
		switch {
		case err != nil:
			return a, err
		case answer.GetRuleId() != plan:
			return a, fmt.Errorf("rule %q decided for plan %s", answer.GetRuleId(), plan)
		case answer.GetAllowed():
			a.at = append(a.at, l.Counted(sent))
		}
	}
}

// results returns the promises of a plan: at most the limit in each window of the clock, for a log in any window, and
// that most of what the limit allows was admitted.
func (a *admissions) results(plan string, s promise.Scale) []promise.Result {
	out := []promise.Result{promise.AtMost(plan+": admitted in one window", float64(a.inWindow()), windowLimit)}
	if plan == "log" {
		out = append(out, promise.AtMost(plan+": admitted in any window", float64(a.inAny()), windowLimit))
	}
	possible := windowLimit * a.length.Seconds() / window.Seconds()
	return append(out, promise.AtLeast(plan+": utilisation", float64(len(a.at))/possible, .8-s.Slack))
}

// inWindow returns the largest number that was certainly counted in one window of the stores' clocks.
func (a *admissions) inWindow() (most int) {
	count := map[int64]int{}
	for _, t := range a.at {
		if k := t.From / window.Microseconds(); t.To/window.Microseconds() == k {
			count[k]++
			most = max(most, count[k])
		}
	}
	return most
}

// inAny returns the largest number that was certainly counted within less than a window. Requests are one after the
// other, so both of their times are in order.
func (a *admissions) inAny() (most int) {
	first := 0
	for last, t := range a.at {
		for t.To-a.at[first].From >= window.Microseconds() {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}
