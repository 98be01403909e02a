package faults

import (
	"context"
	"errors"
	"time"

	"aliquot/internal/e2e"
	"aliquot/internal/e2e/clients"
	"aliquot/internal/e2e/promise"
)

// secondDaemon: a region with a second daemon admits no more than with one, and the second daemon gets the lease when
// the first is killed.
func secondDaemon(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
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
	c := clients.BigLoad(l, s.Run)
	c.Regions = append(c.Regions, second.Address)
	run := clients.Begin(ctx, c)
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
	return append(promise.Bounded(r), promise.AllAnsweredExcept(first, r),
		promise.AtMost("lease of the second while the first lives, seconds", lease.Seconds(), 0),
		promise.AtLeast("admitted by the second while the first lives", float64(clients.AdmittedBetween(r.Regions[len(r.Regions)-1].Series, 0, together)), 1),
		promise.AtMost("seconds from kill -9 of the first to a lease of the second", took.Seconds(), 5),
		promise.AtLeast("utilisation", r.Utilisation.Min, .9-s.Slack)), nil
}
