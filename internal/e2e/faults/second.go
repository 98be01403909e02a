package faults

import (
	"context"
	"errors"
	"time"

	"aliquot/internal/e2e"
)

// secondDaemon: a second daemon of a region adds nothing to what the region may
// admit, and takes over when the first is gone.
func secondDaemon(ctx context.Context, l *e2e.Cluster, s e2e.Scale) ([]e2e.Result, error) {
	first := l.Regions[1]
	second, err := l.StartSecond(first)
	if err != nil {
		return nil, err
	}
	if err := l.AwaitRules(ctx, second); err != nil {
		return nil, err
	}
	lease, err := l.Lease(ctx, second)
	if err != nil {
		return nil, err
	}
	c := e2e.BigLoad(l, s.Run)
	c.Regions = append(c.Regions, second.Address)
	run := e2e.Begin(ctx, c)
	e2e.Pause(ctx, s.Run/2)
	together, killed := run.At(), time.Now()
	if err := first.Kill9(); err != nil {
		return nil, err
	}
	if err := l.AwaitLease(ctx, second); err != nil {
		return nil, err
	}
	took := time.Since(killed)
	r, err := run.Wait()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(second.Terminate(), first.Start(), l.AwaitLeases(ctx)); err != nil {
		return nil, err
	}
	l.Seconds = nil
	return append(e2e.Bounded(r), e2e.UnfailingBut(r, first),
		e2e.AtMost("lease of the second while the first lives, seconds", lease.Seconds(), 0),
		e2e.AtLeast("admitted by the second while the first lives", float64(e2e.AdmittedBetween(r.Regions[len(r.Regions)-1].Series, 0, together)), 1),
		e2e.AtMost("seconds from kill -9 of the first to a lease of the second", took.Seconds(), 5),
		e2e.AtLeast("utilisation", r.Utilisation.Min, .9-s.Slack)), nil
}
