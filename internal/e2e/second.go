package e2e

import (
	"context"
	"errors"
	"time"
)

// secondDaemon: a second daemon of a region adds nothing to what the region may
// admit, and takes over when the first is gone.
func secondDaemon(ctx context.Context, l *Cluster, s Scale) ([]Result, error) {
	first := l.Regions[1]
	second, err := l.startSecond(first)
	if err != nil {
		return nil, err
	}
	if err := l.awaitRules(ctx, second); err != nil {
		return nil, err
	}
	lease, err := l.Lease(ctx, second)
	if err != nil {
		return nil, err
	}
	c := l.load(s.Run)
	c.Regions = append(c.Regions, second.Address)
	run := begin(ctx, c)
	pause(ctx, s.Run/2)
	together, killed := run.at(), time.Now()
	if err := first.Kill9(); err != nil {
		return nil, err
	}
	if err := l.awaitLease(ctx, second); err != nil {
		return nil, err
	}
	took := time.Since(killed)
	r, err := run.wait()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(second.Terminate(), first.Start(), l.AwaitLeases(ctx)); err != nil {
		return nil, err
	}
	l.seconds = nil
	return append(bounded(r), unfailingBut(r, first),
		atMost("lease of the second while the first lives, seconds", lease.Seconds(), 0),
		atLeast("admitted by the second while the first lives", float64(admittedBetween(r.Regions[len(r.Regions)-1].Series, 0, together)), 1),
		atMost("seconds from kill -9 of the first to a lease of the second", took.Seconds(), 5),
		atLeast("utilisation", r.Utilisation.Min, .9-s.Slack)), nil
}
