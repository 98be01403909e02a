package faults

import (
	"context"
	"errors"
	"time"

	"aliquot/internal/bench/load"
	"aliquot/internal/e2e"
	"aliquot/internal/e2e/clients"
	"aliquot/internal/e2e/promise"
)

// primaryKilled: the primary of a region's Redis is killed. Its Sentinels promote the replica, and the region finds the
// new primary by itself.
func primaryKilled(ctx context.Context, l *e2e.Cluster, s promise.Scale) (out []promise.Result, err error) {
	region := l.Regions[0]
	servers, url, err := l.StartSentinels()
	defer e2e.EndAll(servers)
	if err != nil {
		return nil, err
	}
	if err := l.AwaitSentinels(ctx, url); err != nil {
		return nil, err
	}
	back, err := l.LendStore(ctx, region, url)
	defer func() { err = errors.Join(err, back()) }()
	if err != nil {
		return nil, err
	}
	c, err := manyKeys(ctx, l, region, promise.Scale{})
	if err != nil {
		return nil, err
	}
	rotation := clients.Begin(ctx, clients.BigLoad(l, s.Run))
	loaded := inBackground(ctx, c, s.Run)
	e2e.Pause(ctx, s.Run/8)
	killed := time.Now()
	if err := servers[0].Kill9(); err != nil {
		return nil, err
	}
	took, err := l.DegradedSince(ctx, region, killed)
	if err != nil {
		return nil, err
	}
	report, err := loaded()
	if err != nil {
		return nil, err
	}
	r, err := rotation.Wait()
	if err != nil {
		return nil, err
	}
	return append(promise.Bounded(r), promise.AllAnswered(r), promise.None("checks without an answer", report.Failed, report.Examples),
		promise.AtMost("seconds degraded, the Sentinels' own included", took.Seconds(), 5)), nil
}

// inBackground starts the load for d; wait waits for its end.
func inBackground(ctx context.Context, c load.Config, d time.Duration) (wait func() (*load.Report, error)) {
	var report *load.Report
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		report, err = runLoad(ctx, c, d)
	}()
	return func() (*load.Report, error) {
		<-done
		return report, err
	}
}
