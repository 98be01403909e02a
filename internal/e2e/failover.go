package e2e

import (
	"context"
	"errors"
	"time"

	"aliquot/internal/bench/load"
)

// primaryKilled: the primary of a region's Redis is killed; its Sentinels promote the
// replica, and the region finds it by itself.
func primaryKilled(ctx context.Context, l *Cluster, s Scale) (out []Result, err error) {
	region := l.Regions[0]
	servers, url, err := l.startSentinels()
	defer endAll(servers)
	if err != nil {
		return nil, err
	}
	if err := l.awaitSentinels(ctx, url); err != nil {
		return nil, err
	}
	back, err := l.lendStore(ctx, region, url)
	defer func() { err = errors.Join(err, back()) }()
	if err != nil {
		return nil, err
	}
	c, err := l.manyKeys(ctx, region, Scale{})
	if err != nil {
		return nil, err
	}
	rotation := begin(ctx, l.load(s.Run))
	loaded := inBackground(ctx, c, s.Run)
	pause(ctx, s.Run/8)
	killed := time.Now()
	if err := servers[0].Kill9(); err != nil {
		return nil, err
	}
	took, err := l.degradedSince(ctx, region, killed)
	if err != nil {
		return nil, err
	}
	report, err := loaded()
	if err != nil {
		return nil, err
	}
	r, err := rotation.wait()
	if err != nil {
		return nil, err
	}
	return append(bounded(r), unfailing(r), none("checks without an answer", report.Failed, report.Examples),
		atMost("seconds degraded, the Sentinels' own included", took.Seconds(), 5)), nil
}

// inBackground is the load for a while; what it returns waits for it.
func inBackground(ctx context.Context, c load.Config, d time.Duration) (wait func() (*load.Report, error)) {
	var report *load.Report
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		report, err = part(ctx, c, d)
	}()
	return func() (*load.Report, error) {
		<-done
		return report, err
	}
}
