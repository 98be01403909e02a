package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"aliquot/internal/e2e"
)

// Matrix runs every fault of the store with every algorithm, once with few requests and once with 1,000 a second. It
// returns a result for each rule.
func (o Outages) Matrix(ctx context.Context, bin, dir string) ([]OutageResult, error) {
	return o.run(ctx, bin, dir, outageMatrix(), func(r *outageRun, all []outagePlan) (out []OutageResult) {
		for _, p := range all {
			out = append(out, r.result(p.algorithm, p.enforcement, []outagePlan{p}))
		}
		return out
	})
}

// storeFaults returns faults of the first region's store. Each of them ends by itself.
func storeFaults() []outage {
	during := func(d time.Duration, begin, end string) func(context.Context, *e2e.Cluster, int) error {
		return func(ctx context.Context, l *e2e.Cluster, _ int) error {
			if err := l.Regions[0].Command(begin); err != nil {
				return err
			}
			e2e.Pause(ctx, d)
			return l.Regions[0].Command(end)
		}
	}
	var slow *e2e.Link
	return []outage{
		{name: "stopped 60 ms", fault: func(ctx context.Context, l *e2e.Cluster, _ int) error { return stopStore(ctx, l, stallFor) }},
		{name: "stopped 1 s", fault: func(ctx context.Context, l *e2e.Cluster, _ int) error { return stopStore(ctx, l, time.Second) }},
		{name: "stopped 30 s", fault: func(ctx context.Context, l *e2e.Cluster, _ int) error { return stopStore(ctx, l, 30*time.Second) }},
		{name: "killed, away 6 s", empties: true, fault: func(ctx context.Context, l *e2e.Cluster, _ int) error { return killStore(ctx, l, awayFor) }},
		{name: "restarted with its contents", empties: true, fault: func(_ context.Context, l *e2e.Cluster, _ int) error { return restartStore(l) }},
		{name: "restarted without its contents", empties: true, fault: func(ctx context.Context, l *e2e.Cluster, _ int) error { return killStore(ctx, l, 0) }},
		{name: "slow by 50 ms", fault: func(ctx context.Context, _ *e2e.Cluster, _ int) error {
			slow.Delay(50 * time.Millisecond)
			e2e.Pause(ctx, awayFor)
			slow.Delay(0)
			return nil
		}, prepare: func(ctx context.Context, l *e2e.Cluster) (undo func() error, err error) {
			if slow, err = e2e.NewLink(l.Regions[0].Redis); err != nil {
				return nil, err
			}
			back, err := l.LendStore(ctx, l.Regions[0], "redis://"+slow.Address())
			e2e.Pause(ctx, outageWarmUp)
			return func() error {
				defer slow.Close()
				return back()
			}, err
		}},
		{name: "errors (NOPERM)", fault: during(awayFor, "ACL SETUSER default -evalsha -eval", "ACL SETUSER default +@all")},
		{name: "out of memory", fault: during(awayFor, "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0")},
		{name: "read-only", empties: true, fault: during(awayFor, "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE")},
	}
}

// restartStore saves the contents of the first region's store, ends it, and starts it again with them.
func restartStore(l *e2e.Cluster) error {
	redis := l.Redis[0]
	contents := filepath.Join(redis.Flag("--dir"), redis.Flag("--dbfilename"))
	if err := l.Regions[0].Command("SAVE"); err != nil {
		return err
	}
	return errors.Join(redis.Kill9(), redis.Start(), os.Remove(contents))
}

// outageMatrix returns each of storeFaults twice: with one request a second for each rule, and with 1,000 in total.
func outageMatrix() (out []outage) {
	for _, f := range storeFaults() {
		few, many := f, f
		few.name, few.clients = f.name+", one a second", oneASecond
		many.name, many.clients = f.name+", 1,000 a second", thousandASecond
		for _, o := range []outage{few, many} {
			o.before, o.after = 3*time.Second, 8*time.Second
			out = append(out, o)
		}
	}
	return out
}

// firstRequest returns when the clients of the plan with a number start, so that the plans do not ask at once.
func firstRequest(plan int) time.Duration { return time.Duration(plan) * 80 * time.Millisecond }

// oneASecond returns a client of each plan that asks once a second.
func oneASecond(run int) (out []client) {
	for i, p := range plans(outageAlgorithms...) {
		out = append(out, client{plan: p, key: uniqueKey(p, run, 0), every: time.Second, from: firstRequest(i)})
	}
	return out
}

// thousandASecond returns clients that send 1,000 requests a second in total. Of each plan four ask at half of their
// limit, a greedy one at twice its limit or more, and ten new ones a second ask once.
func thousandASecond(run int) (out []client) {
	const many = 4
	for i, p := range plans(outageAlgorithms...) {
		from := firstRequest(i)
		half := time.Second / (outageRate / 2)
		if p.counts() {
			half = 2 * outageWindow / outageCount
		}
		for n := range many {
			out = append(out, client{plan: p, key: uniqueKey(p, run, n), every: half, from: from + time.Duration(n)*20*time.Millisecond})
		}
		out = append(out, client{plan: p, key: uniqueKey(p, run, many), every: time.Second / (2 * outageRate), from: from, greedy: true})
		for n := range 200 {
			out = append(out, client{plan: p, key: uniqueKey(p, run, many+1+n), from: from + time.Duration(n)*100*time.Millisecond})
		}
	}
	return out
}

// Cell returns a result as a cell of the table in docs/benchmarks/outages.md.
func (r *OutageResult) Cell() string {
	text := fmt.Sprintf("%d of %d; %.3f; %.1f s", r.Refused, r.Asked, r.Gain, r.Normal.Seconds())
	if r.Unanswered > 0 {
		text += fmt.Sprintf("; %d without an answer", r.Unanswered)
	}
	if r.TurnedAway > 0 {
		text += fmt.Sprintf("; %d turned away", r.TurnedAway)
	}
	if r.Unsettled > 0 {
		text += fmt.Sprintf("; %d not given back", r.Unsettled)
	}
	return text
}
