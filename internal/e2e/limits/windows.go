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

// The limits of RulesYAML that count.
const (
	windowLimit = 60
	window      = 2 * time.Second
)

// counting are the plans whose limit counts.
var counting = []string{"fixed", "counter", "log"}

// Windows: a client that turns to another region with every request, and asks for twice
// what it may, never gets more in a window than a limit that counts allows, also while
// the leader is killed.
func Windows(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	run := fmt.Sprint("windows", time.Now().UnixNano())
	got, errs := make([]passed, len(counting)), make([]error, len(counting))
	deadline, stop := context.WithTimeout(ctx, s.Run+4*window)
	defer stop()
	var clients sync.WaitGroup
	for i, plan := range counting {
		clients.Go(func() { got[i], errs[i] = turnRound(deadline, l, plan, run) })
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

// passed are the admissions of one client in the order of their requests.
type passed struct {
	at     []e2e.Admitted
	length time.Duration
}

// turnRound sends twice what the limit allows, each request to the next region.
func turnRound(ctx context.Context, l *e2e.Cluster, plan, run string) (p passed, err error) {
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
			p.length = time.Since(began)
			return p, nil
		case <-tick.C:
		}
		asked := time.Now()
		answer, err := regions[i%len(regions)].Check(context.WithoutCancel(ctx), in)
		switch {
		case err != nil:
			return p, err
		case answer.GetRuleId() != plan:
			return p, fmt.Errorf("rule %q decided for plan %s", answer.GetRuleId(), plan)
		case answer.GetAllowed():
			p.at = append(p.at, l.Counted(asked))
		}
	}
}

// results: the most in a window of the clock, and for a log in any window at all, and
// how much of what the limit allows was had once the budgets had found the demand.
func (p *passed) results(plan string, s promise.Scale) []promise.Result {
	out := []promise.Result{promise.AtMost(plan+": admitted in one window", float64(p.inWindow()), windowLimit)}
	if plan == "log" {
		out = append(out, promise.AtMost(plan+": admitted in any window", float64(p.inAny()), windowLimit))
	}
	possible := windowLimit * p.length.Seconds() / window.Seconds()
	return append(out, promise.AtLeast(plan+": utilisation", float64(len(p.at))/possible, .8-s.Slack))
}

// inWindow is the most that was certainly counted in one window of the stores' clocks.
func (p *passed) inWindow() (most int) {
	count := map[int64]int{}
	for _, a := range p.at {
		if k := a.From / window.Microseconds(); a.To/window.Microseconds() == k {
			count[k]++
			most = max(most, count[k])
		}
	}
	return most
}

// inAny is the most that was certainly counted within less than a window: requests are
// one after the other, so both ends are in order.
func (p *passed) inAny() (most int) {
	first := 0
	for last, a := range p.at {
		for a.To-p.at[first].From >= window.Microseconds() {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}
